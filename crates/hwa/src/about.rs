//! What the file of a run's weights tells about them, and what others make of it.

use std::num::NonZeroUsize;

use hwa_data::Source;
use hwa_nn::ModelSpec;
use hwa_store::Metadata;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What has to be known of weights to use them on other images.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    /// The network.
    network: String,
    /// Height, width and channels of its images.
    input: Vec<usize>,
    /// The names of the classes, in the order of the scores.
    classes: Vec<String>,
    /// What is taken off each channel of pixels from 0 to 1 ...
    mean: Vec<f32>,
    /// ... and what the rest is divided by.
    std: Vec<f32>,
}

impl About {
    /// Of a network that is trained on a data set.
    pub(crate) fn of(network: ModelSpec, source: &Source) -> Self {
        let channels = source.transform.normalise.channels();
        let shape = source.shape;
        Self {
            network: network.to_string(),
            input: vec![shape.height, shape.width, shape.channels],
            classes: source.class_names.clone(),
            mean: channels.iter().map(|channel| channel.mean).collect(),
            std: channels.iter().map(|channel| channel.std).collect(),
        }
    }

    /// Of weights whose file says so; others say nothing.
    pub(crate) fn read(metadata: &Metadata) -> Self {
        let fields = metadata.iter().map(|(key, value)| (key.clone(), value.clone()));
        let fields: serde_json::Map<String, serde_json::Value> = fields.collect();
        serde_json::from_value(fields.into()).unwrap_or_default()
    }

    pub(crate) fn to_metadata(&self) -> Result<Metadata, Failure> {
        match serde_json::to_value(self)? {
            serde_json::Value::Object(fields) => Ok(fields.into_iter().collect()),
            _ => Ok(Metadata::new()),
        }
    }

    /// The side of its images, if it is another than that of a data set's own.
    pub(crate) fn size_unlike(&self, dataset: &str) -> Option<NonZeroUsize> {
        let [height, width, _] = self.input[..] else { return None };
        let entry = hwa_data::catalogue().iter().find(|entry| entry.name == dataset)?;
        let usual = (entry.shape.height, entry.shape.width);
        NonZeroUsize::new(height).filter(|_| height == width && (height, width) != usual)
    }

    /// What to say if its classes are others than those of a data set.
    pub(crate) fn classes_unlike(&self, source: &Source) -> Option<String> {
        let (own, found) = (&self.classes, &source.class_names);
        let (number, (own, found)) =
            own.iter().zip(found).enumerate().find(|(_, (own, found))| own != found)?;
        Some(format!("its class {number} is `{own}`, in {} that is `{found}`", source.name))
    }
}

#[cfg(test)]
mod tests {
    use hwa_data::OpenOptions;

    use super::*;

    #[test]
    fn weights_tell_what_they_are_for() {
        let source = hwa_data::open("digits", None, &OpenOptions::default()).unwrap();
        let about = About::of("resnet8".parse().unwrap(), &source);
        let again = About::read(&about.to_metadata().unwrap());
        assert_eq!(again, about);
        assert_eq!((about.input.len(), about.classes.len(), about.mean.len()), (3, 10, 1));
        assert_eq!(about.size_unlike("digits"), None);
        assert_eq!(about.size_unlike("folder").map(NonZeroUsize::get), Some(about.input[0]));
        assert_eq!(about.classes_unlike(&source), None);
        let mut other = about.clone();
        other.classes[3] = "drei".to_owned();
        let line = other.classes_unlike(&source).unwrap();
        assert!(line.starts_with("its class 3 is `drei`, in digits that is `"), "{line}");
        assert_eq!(About::read(&Metadata::new()), About::default());
    }
}
