//! What a misspelt name was probably meant to be.

/// How many characters have to be put in, left out or replaced to make one name of the other
/// (Levenshtein).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The known name that is nearest to what was asked for, if it is near: a third of the
/// characters may differ, capitals do not count, and a known name may go on after what was
/// asked for.
pub fn nearest<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let asked = asked.to_lowercase();
    let close = asked.chars().count().div_ceil(3);
    let is_near = |name: &str, far| {
        far <= close || (!asked.is_empty() && name.to_lowercase().starts_with(&asked))
    };
    let far = known.into_iter().map(|name| (distance(&asked, &name.to_lowercase()), name));
    far.filter(|(far, name)| is_near(name, *far)).min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_changes() {
        // One replaced; one put in; all put in; two replaced and one put in.
        let pairs =
            [("sede", "sedo", 1), ("lr", "lrs", 1), ("", "abc", 3), ("kitten", "sitting", 3)];
        for (a, b, expected) in pairs {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected), "{a}, {b}");
            assert_eq!(distance(a, a), 0);
        }
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["vgg16_cifar", "vgg16_bn", "mobilenet_v2", "resnet18"];
        for (asked, meant) in [
            ("mobilenetv2", Some("mobilenet_v2")),
            ("ResNet18", Some("resnet18")),
            ("resnet_18", Some("resnet18")),
            ("vgg16", Some("vgg16_bn")),
            ("alexnet", None),
            ("", None),
        ] {
            assert_eq!(nearest(asked, known), meant, "{asked}");
        }
    }
}
