//! Files that are made to do harm: to run something, to fill memory, to go on for ever.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};
use hwa_store::CheckpointError;
use proptest::prelude::*;

use crate::torch_file::{
    View, archive, entry, floats, int, one_tensor, read, refused, saved, text,
};

fn refused_name(program: &[u8]) -> String {
    match refused(&saved(program, &[])) {
        CheckpointError::Refused { name } => name,
        other => panic!("expected a name, found {other:?}"),
    }
}

/// A dict of one tensor, with `filling` as another entry.
fn beside_a_tensor(filling: &[u8]) -> Vec<u8> {
    let model = [b"}".as_slice(), &text("w"), &View::PAIR.program(), b"s"].concat();
    let program =
        [b"\x80\x02}(".as_slice(), &text("model"), &model, &text("other"), filling, b"u."];
    saved(&program.concat(), &[("0", &floats(&[1.0, 2.0]))])
}

#[test]
fn what_a_pickle_asks_for_is_refused_by_name() {
    let system = [b"\x80\x02cos\nsystem\n".as_slice(), &text("true"), b"\x85R."].concat();
    assert_eq!(refused_name(&system), "os.system");
    let popen = [b"\x80\x02csubprocess\nPopen\n".as_slice(), &text("true"), b"\x85R."].concat();
    assert_eq!(refused_name(&popen), "subprocess.Popen");
    let eval = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x051 + 1\x85R.";
    assert_eq!(refused_name(eval), "builtins.eval");
    // Not called, not even used: to ask for it is enough.
    assert_eq!(refused_name(b"\x80\x02cposix\nsystem\n0}."), "posix.system");
    // Names reach into modules by dots.
    let dotted = b"\x80\x04\x8c\x05torch\x8c\x17serialization.os.system\x93.";
    assert_eq!(refused_name(dotted), "torch.serialization.os.system");
}

#[test]
fn a_hostile_name_does_no_harm_to_the_message() {
    let name = refused_name(b"\x80\x02c\x1b[31mred\n\x07bell\n.");
    assert_eq!(name, "\\u{1b}[31mred.\\u{7}bell");
    let long = [b"\x80\x02c".as_slice(), &[b'x'; 100_000], b"\ny\n."].concat();
    assert!(refused_name(&long).len() < 300);
}

#[test]
fn instructions_that_call_by_other_ways_are_unknown() {
    // INST, OBJ, the extension registry, persistent ids as text, out-of-band buffers.
    let programs: [&[u8]; 7] = [
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x02(cos\nsystem\no.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02\x83\x01\x00.",
        b"\x80\x02\x84\x01\x00\x00\x00.",
        b"\x80\x02Pid\n.",
        b"\x80\x05\x97.",
    ];
    for program in programs {
        let error = refused(&saved(program, &[]));
        let expected =
            matches!(error, CheckpointError::Instruction { .. } | CheckpointError::Refused { .. });
        assert!(expected, "{program:?}: {error:?}");
    }
}

#[test]
fn harmless_names_cannot_be_turned_into_something_else() {
    let programs: [&[u8]; 6] = [
        // a text, a number, a storage type, a type of elements: none can be called
        b"\x80\x02X\x02\0\0\0os)R.",
        b"\x80\x02K\x01)R.",
        b"\x80\x02ctorch\nFloatStorage\n)R.",
        b"\x80\x02ctorch\nfloat32\n)R.",
        // attributes of a function
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}b.",
        // a tensor from a function that is not one of those that build tensors
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\nN))tR.",
    ];
    for program in programs {
        let error = refused(&saved(program, &[]));
        assert!(matches!(error, CheckpointError::Senseless { .. }), "{program:?}: {error:?}");
    }
}

#[test]
fn a_compressed_pickle_is_refused_before_it_is_unpacked() {
    // 256 MiB of zeros in a quarter of a megabyte
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
    let piece = vec![0; 1 << 20];
    for _ in 0..256 {
        packer.write_all(&piece).unwrap();
    }
    let packed = packer.finish().unwrap();
    assert!(packed.len() < 1 << 20);
    let mut bomb = entry("data.pkl", &packed);
    (bomb.method, bomb.length) = (8, 256 << 20);
    let error = refused(&archive(&[bomb]));
    assert!(matches!(error, CheckpointError::NotStored { .. }), "{error:?}");
}

#[test]
fn claims_of_length_are_checked_before_memory_is_taken() {
    let mut long = entry("data.pkl", b"\x80\x02}.");
    long.length = u32::MAX - 1;
    let error = refused(&archive(&[long]));
    assert!(matches!(error, CheckpointError::OutsideFile { .. }), "{error:?}");

    // texts, bytes and integers that claim more than there is
    let programs: [&[u8]; 6] = [
        b"\x80\x02X\xff\xff\xff\xffab",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab",
        b"\x80\x04B\xff\xff\xff\xffab",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fab",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7fab",
        b"\x80\x02\x8b\xff\xff\xff\x7fab",
    ];
    for program in programs {
        let error = refused(&saved(program, &[]));
        assert!(matches!(error, CheckpointError::PickleEnds { .. }), "{program:?}: {error:?}");
    }
}

#[test]
fn a_pickle_longer_than_any_checkpoints_is_refused() {
    let program = vec![b'N'; (64 << 20) + 1];
    let error = refused(&saved(&program, &[]));
    assert!(matches!(error, CheckpointError::TooMany { .. }), "{error:?}");
}

#[test]
fn values_marks_and_pushes_are_bounded() {
    let limits: [(u8, usize); 3] = [
        (b']', (1 << 21) - 2), // lists: values, of which two are always there
        (b'(', 10_000),        // marks: depth
        (b'N', 1 << 24),       // None, which is no new value: pushes
    ];
    for (instruction, limit) in limits {
        let program = [b"\x80\x02".as_slice(), &vec![instruction; limit + 1]].concat();
        match refused(&saved(&program, &[])) {
            CheckpointError::TooMany { limit: found, .. } => {
                assert!(found.abs_diff(limit as u64) <= 2, "{found}")
            }
            other => panic!("{instruction}: {other:?}"),
        }
    }
    let memo: Vec<u8> = (0..=(1u32 << 21))
        .flat_map(|i| {
            let [a, b, c, d] = i.to_le_bytes();
            [b'r', a, b, c, d]
        })
        .collect();
    let program = [b"\x80\x02N".as_slice(), &memo].concat();
    let error = refused(&saved(&program, &[]));
    assert!(matches!(error, CheckpointError::TooMany { .. }), "{error:?}");
}

#[test]
fn tensors_are_bounded_however_few_bytes_they_take() {
    let description = View::PAIR.program();
    let arguments = [&description[..description.len() - 1], b"q\x01"].concat();
    // Five bytes build another tensor of the same arguments.
    let start =
        [b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00".as_slice(), &arguments].concat();
    let built = [start, b"h\x00h\x01R".repeat(1 << 17)].concat();
    // One tensor under many names.
    let names: Vec<u8> =
        (0..=1 << 17).flat_map(|i| [text(&format!("{i}")), b"h\x01".to_vec()].concat()).collect();
    let named = [b"\x80\x02}".as_slice(), &description, b"q\x010(", &names, b"u."].concat();
    let extra = [built, b"h\x00h\x01R.".to_vec()].concat();
    for program in [extra, named] {
        let error = refused(&saved(&program, &[("0", &floats(&[1.0, 2.0]))]));
        assert!(matches!(error, CheckpointError::TooMany { what: "tensors", .. }), "{error:?}");
    }
}

#[test]
fn containers_that_contain_themselves_are_only_data() {
    let loops: [&[u8]; 4] = [
        b"]q\x01h\x01a",             // a list in itself
        b"}q\x01X\x01\0\0\0kh\x01s", // a dict in itself
        b"]q\x01(h\x01h\x01h\x01e",  // thrice
        b"]q\x01h\x01\x85q\x02a",    // through a tuple
    ];
    for filling in loops {
        assert_eq!(read(&beside_a_tensor(filling)).unwrap().weights.len(), 1, "{filling:?}");
    }
    // and as the state dict itself
    let program = [b"\x80\x02}q\x01".as_slice(), &text("model"), b"h\x01s."].concat();
    let error = refused(&saved(&program, &[]));
    assert!(matches!(error, CheckpointError::NoStateDict { .. }), "{error:?}");
}

#[test]
fn a_million_nested_tuples_overflow_no_stack() {
    let nested = [b")".as_slice(), &vec![0x85; 1_000_000]].concat();
    assert_eq!(read(&beside_a_tensor(&nested)).unwrap().weights.len(), 1);
}

#[test]
fn a_dict_that_doubles_itself_stays_small() {
    // Each level holds the one before twice: 2^1000 paths, 1000 values.
    let levels = b"\x86q\x010h\x01h\x01".repeat(1000);
    let filling = [b"NN".as_slice(), &levels, b"\x86"].concat();
    assert_eq!(read(&beside_a_tensor(&filling)).unwrap().weights.len(), 1);
}

#[test]
fn an_expanded_number_cannot_ask_for_terabytes() {
    let number = floats(&[1.0]);
    let expanded = |shape, strides| {
        let view = View { length: 1, shape, strides, ..View::PAIR };
        saved(&one_tensor(&view), &[("0", &number)])
    };
    assert_eq!(read(&expanded(&[1000, 1000], &[0, 0])).unwrap().weights.num_elements(), 1_000_000);
    let error = refused(&expanded(&[1 << 20, 1 << 20], &[0, 0]));
    assert!(matches!(error, CheckpointError::TooLarge { .. }), "{error:?}");
    let error = refused(&expanded(&[1 << 40, 1 << 40], &[0, 0]));
    assert!(matches!(error, CheckpointError::OutsideStorage { .. }), "{error:?}");
}

#[test]
fn many_views_that_span_one_storage_count_together() {
    // 2,000 views of two numbers each, over all of a storage of 400 kB: 800 MB to read
    let storage = vec![0; 400_000];
    let view = View { length: 100_000, shape: &[2], strides: &[99_999], ..View::PAIR };
    let entries = (0..2000).flat_map(|i| [text(&format!("w{i}")), view.program()].concat());
    let program = [b"\x80\x02}(".as_slice(), &entries.collect::<Vec<_>>(), b"u."].concat();
    let error = refused(&saved(&program, &[("0", &storage)]));
    assert!(matches!(error, CheckpointError::TooLarge { .. }), "{error:?}");
}

#[test]
fn a_key_of_a_storage_is_not_a_path() {
    let view = View { key: "../../../../etc/passwd", ..View::PAIR };
    let error = refused(&saved(&one_tensor(&view), &[("0", &floats(&[1.0, 2.0]))]));
    assert!(matches!(error, CheckpointError::MissingEntry { .. }), "{error:?}");
}

#[test]
fn a_name_that_is_given_twice_is_refused() {
    let both = [text("w"), View::PAIR.program(), text("w"), View::PAIR.program()].concat();
    let program = [b"\x80\x02}(".as_slice(), &both, b"u."].concat();
    let error = refused(&saved(&program, &[("0", &floats(&[1.0, 2.0]))]));
    assert!(matches!(error, CheckpointError::DuplicateKey { .. }), "{error:?}");
}

proptest! {
    #[test]
    fn no_program_makes_the_machine_panic(
        pieces in prop::collection::vec(piece(), 0..60),
        noise in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut program = b"\x80\x02".to_vec();
        program.extend(pieces.concat());
        program.extend(noise);
        let _ = read(&saved(&program, &[("0", &floats(&[1.0, 2.0]))]));
    }
}

/// Instructions that are likely to do something, so that programs get far.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let single = prop::sample::select(
        b".(012N)]}tuaesbRQ\x81\x85\x86\x87\x88\x8f\x90\x91\x92\x93\x94".to_vec(),
    );
    let global = prop::sample::select(vec![
        "torch._utils\n_rebuild_tensor_v2",
        "torch._utils\n_rebuild_tensor_v3",
        "torch._utils\n_rebuild_parameter",
        "torch._tensor\n_rebuild_from_type_v2",
        "torch\nFloatStorage",
        "torch.storage\nUntypedStorage",
        "torch\nfloat32",
        "torch\nSize",
        "collections\nOrderedDict",
        "collections\ndefaultdict",
        "argparse\nNamespace",
    ]);
    let word = prop::sample::select(vec!["storage", "0", "cpu", "w", "model", "state_dict"]);
    prop_oneof![
        4 => single.prop_map(|code| vec![code]),
        1 => global.prop_map(|name| format!("c{name}\n").into_bytes()),
        1 => word.prop_map(text),
        1 => prop_oneof![-2i64..5, any::<i64>()].prop_map(int),
        1 => (0u8..4).prop_map(|i| vec![b'q', i]),
        1 => (0u8..4).prop_map(|i| vec![b'h', i]),
        1 => Just(View::PAIR.program()),
    ]
}
