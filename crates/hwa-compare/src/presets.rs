//! The tables of the paper, as comparisons.

/// A table of the paper.
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! preset {
    ($name:literal, $about:literal) => {
        Preset {
            name: $name,
            about: $about,
            text: include_str!(concat!("../comparisons/", $name, ".toml")),
        }
    };
}

/// All of them.
pub const PRESETS: [Preset; 8] = [
    preset!("table1", "methods on CIFAR-10 and CIFAR-100, six networks: 360 runs"),
    preset!("table2", "what the online and the offline module contribute, on CIFAR: 144 runs"),
    preset!("table3", "two, three and four models, on CIFAR: 72 runs"),
    preset!("table4", "the length of the slide window, on CIFAR: 20 runs"),
    preset!("table5", "Tiny-ImageNet, three networks: 54 runs"),
    preset!("table6", "CUB-200-2011, three networks: 54 runs"),
    preset!("table7", "CalTech-256, three networks: 54 runs"),
    preset!("table8", "ImageNet, ResNet50: 6 runs"),
];

/// The table of the paper of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::spec::Spec;

    fn check(spec: &Spec) -> usize {
        let cells = spec.cells(&[]).unwrap();
        let figures: usize = spec.paper.values().flat_map(|n| n.values()).map(|m| m.len()).sum();
        let per_model = cells.iter().filter(|cell| !cell.folder.ends_with("-total"));
        let shown = per_model.filter(|cell| spec.published(cell).top1.is_some()).count();
        assert_eq!(shown, figures, "{}: figures that belong to no row", spec.name);
        for cell in &cells {
            // Enough images for any of the data sets.
            cell.experiment.settings(10_000).unwrap();
            drop(cell.experiment.technique(10_000).unwrap());
        }
        // What is outer weights of another is trained with it.
        cells.iter().filter(|cell| cell.outer_of.is_none()).count() * spec.seeds.len()
    }

    #[test]
    fn the_comparisons_of_the_repository_are_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../comparisons");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, text) = (entry.path(), fs::read_to_string(entry.path()).unwrap());
            let spec = Spec::parse(&text, &path).unwrap();
            assert_eq!(path.file_stem().unwrap().to_str(), Some(spec.name.as_str()));
            check(&spec);
            count += 1;
        }
        assert!(count >= 3);
    }

    #[test]
    fn every_preset_is_a_comparison_whose_published_figures_have_a_row() {
        for preset in &PRESETS {
            let path = Path::new(preset.name);
            let spec = Spec::parse(preset.text, path).unwrap();
            assert_eq!(spec.name, preset.name);
            let runs = format!(": {} runs", check(&spec));
            assert!(preset.about.ends_with(&runs), "{}: it has{runs}", preset.name);
        }
    }
}
