//! The names that a pickle may ask for. Everything else is refused.
//!
//! A name on this list has a meaning here, or it stands for plain data that training
//! checkpoints carry along and nobody here looks at. Nothing is ever called. A name that
//! is not on the list could be skipped just as well, but a file that asks for it is not
//! a mere checkpoint, and whoever loads it elsewhere should hear of it.

use super::value::Element;

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    /// A tensor over a storage with a type.
    RebuildTensor,
    /// A tensor over raw bytes, with the type as an argument.
    RebuildTensorV3,
    /// A parameter around a tensor.
    RebuildParameter,
    /// A tensor with attributes, by one of the functions above.
    RebuildFromType,
    /// A type of storages; without an element, of raw bytes.
    Storage(Option<Element>),
    /// A type of elements.
    Dtype(Element),
    /// A dict, filled later; with as many arguments when it is new.
    Dict { arguments: usize },
    /// A shape: the tuple that it is made of.
    Size,
    /// Data without a meaning for weights.
    Inert,
}

/// The meaning of a name, if it has one.
pub(super) fn lookup(module: &str, name: &str) -> Option<Global> {
    Some(match (module, name) {
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Global::RebuildTensor,
        ("torch._utils", "_rebuild_tensor_v3") => Global::RebuildTensorV3,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
            Global::RebuildParameter
        }
        ("torch._tensor", "_rebuild_from_type_v2") => Global::RebuildFromType,
        ("torch", "Size") => Global::Size,
        ("torch" | "torch.storage", "UntypedStorage") => Global::Storage(None),
        ("torch" | "torch.storage", "TypedStorage") => Global::Inert,
        ("torch", name) if name.ends_with("Storage") => Global::Storage(Some(stored(name)?)),
        ("torch", name) => dtype(name).map(Global::Dtype).or_else(|| inert_of_torch(name))?,
        ("collections", "OrderedDict") => Global::Dict { arguments: 0 },
        ("builtins" | "__builtin__", "dict") => Global::Dict { arguments: 0 },
        // Its argument makes what is missing.
        ("collections", "defaultdict") => Global::Dict { arguments: 1 },
        _ if is_inert(module, name) => Global::Inert,
        _ => return None,
    })
}

fn stored(name: &str) -> Option<Element> {
    Some(match name {
        "DoubleStorage" => Element::F64,
        "FloatStorage" => Element::F32,
        "HalfStorage" => Element::F16,
        "BFloat16Storage" => Element::BF16,
        "LongStorage" => Element::I64,
        "IntStorage" => Element::I32,
        "ShortStorage" => Element::Other("I16"),
        "CharStorage" => Element::Other("I8"),
        "ByteStorage" => Element::Other("U8"),
        "BoolStorage" => Element::Other("BOOL"),
        "ComplexFloatStorage" => Element::Other("C64"),
        "ComplexDoubleStorage" => Element::Other("C128"),
        _ => return None,
    })
}

fn dtype(name: &str) -> Option<Element> {
    Some(match name {
        "float64" | "double" => Element::F64,
        "float32" | "float" => Element::F32,
        "float16" | "half" => Element::F16,
        "bfloat16" => Element::BF16,
        "int64" | "long" => Element::I64,
        "int32" | "int" => Element::I32,
        "int16" | "short" => Element::Other("I16"),
        "int8" => Element::Other("I8"),
        "uint8" => Element::Other("U8"),
        "uint16" => Element::Other("U16"),
        "uint32" => Element::Other("U32"),
        "uint64" => Element::Other("U64"),
        "bool" => Element::Other("BOOL"),
        "complex64" => Element::Other("C64"),
        "complex128" => Element::Other("C128"),
        "float8_e4m3fn" => Element::Other("F8_E4M3"),
        "float8_e5m2" => Element::Other("F8_E5M2"),
        _ => return None,
    })
}

fn inert_of_torch(name: &str) -> Option<Global> {
    matches!(name, "Tensor" | "device").then_some(Global::Inert)
}

/// Plain data of Python and NumPy, by the names under which it is pickled.
fn is_inert(module: &str, name: &str) -> bool {
    match module {
        "torch.nn.parameter" => matches!(name, "Parameter" | "Buffer"),
        "argparse" => name == "Namespace",
        "types" => name == "SimpleNamespace",
        "collections" => matches!(name, "Counter" | "deque"),
        "builtins" | "__builtin__" => matches!(
            name,
            "set"
                | "frozenset"
                | "list"
                | "tuple"
                | "int"
                | "float"
                | "bool"
                | "str"
                | "bytes"
                | "bytearray"
                | "complex"
                | "slice"
                | "range"
                | "object"
        ),
        // How bytes are written in protocol 2, from a text.
        "_codecs" => name == "encode",
        "datetime" => matches!(name, "datetime" | "date" | "time" | "timedelta" | "timezone"),
        "pathlib" | "pathlib._local" => {
            matches!(name, "PosixPath" | "WindowsPath" | "PurePosixPath" | "PureWindowsPath")
        }
        "numpy" => matches!(name, "dtype" | "ndarray"),
        "numpy.core.multiarray" | "numpy._core.multiarray" => {
            matches!(name, "scalar" | "_reconstruct")
        }
        "numpy.core.numeric" | "numpy._core.numeric" => name == "_frombuffer",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_run_something_has_no_meaning() {
        let hostile = [
            ("os", "system"),
            ("posix", "system"),
            ("nt", "system"),
            ("subprocess", "Popen"),
            ("builtins", "eval"),
            ("builtins", "exec"),
            ("builtins", "getattr"),
            ("builtins", "__import__"),
            ("__builtin__", "apply"),
            ("operator", "attrgetter"),
            ("functools", "partial"),
            ("torch", "load"),
            ("torch", "hub.load"),
            ("torch", "serialization.os.system"),
            ("torch", "EvilStorage"),
            ("torch.storage", "_load_from_bytes"),
            ("torch.utils.cpp_extension", "load_inline"),
            ("numpy", "load"),
            ("numpy.testing._private.utils", "runstring"),
            ("collections", "namedtuple"),
            ("_codecs", "decode"),
            ("pathlib", "Path"),
            ("", ""),
        ];
        for (module, name) in hostile {
            assert_eq!(lookup(module, name), None, "{module}.{name}");
        }
    }

    #[test]
    fn what_state_dicts_are_made_of_has_one() {
        assert_eq!(lookup("torch._utils", "_rebuild_tensor_v2"), Some(Global::RebuildTensor));
        let float = Some(Global::Storage(Some(Element::F32)));
        assert_eq!(lookup("torch", "FloatStorage"), float);
        assert_eq!(lookup("torch", "bfloat16"), Some(Global::Dtype(Element::BF16)));
        assert_eq!(lookup("collections", "OrderedDict"), Some(Global::Dict { arguments: 0 }));
        assert_eq!(lookup("argparse", "Namespace"), Some(Global::Inert));
    }
}
