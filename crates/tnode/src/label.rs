//! Names of nodes given by users.

/// The parts of a node's name, from the widest to the narrowest. The last part should be an identifier.
///
/// ```
/// # use tnode::Label;
/// assert_eq!(Label::from("w1"), Label::from(["w1"]));
/// assert_eq!(Label::from(["grad", "w1"]).as_slice().len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label(Vec<String>);

impl Label {
    /// The parts, widest first.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl From<&str> for Label {
    fn from(part: &str) -> Label {
        Label(vec![part.to_owned()])
    }
}

impl From<String> for Label {
    fn from(part: String) -> Label {
        Label(vec![part])
    }
}

impl From<&String> for Label {
    fn from(part: &String) -> Label {
        Label(vec![part.clone()])
    }
}

impl From<Vec<String>> for Label {
    fn from(parts: Vec<String>) -> Label {
        Label(parts)
    }
}

impl From<&[String]> for Label {
    fn from(parts: &[String]) -> Label {
        Label(parts.to_vec())
    }
}

impl From<&[&str]> for Label {
    fn from(parts: &[&str]) -> Label {
        parts.iter().copied().collect()
    }
}

impl<const N: usize> From<[&str; N]> for Label {
    fn from(parts: [&str; N]) -> Label {
        parts.into_iter().collect()
    }
}

impl<S: Into<String>> FromIterator<S> for Label {
    fn from_iter<I: IntoIterator<Item = S>>(parts: I) -> Label {
        Label(parts.into_iter().map(Into::into).collect())
    }
}
