//! Announcements: each rank describes its next operation, so that ranks with different ones find out.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The bytes of an announcement. MPI libraries send so few at once, without waiting for the receiver.
const BYTES: usize = 256;

/// A description of an operation, of a fixed number of bytes. Long descriptions are cut; they are equal if
/// the whole texts are, except for collisions of a 64-bit digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement([u8; BYTES]);

impl Announcement {
    pub(crate) fn new(text: &str) -> Announcement {
        Announcement::with_details(text, "")
    }

    /// A description with details that must be equal too, but are not shown.
    pub(crate) fn with_details(text: &str, details: &str) -> Announcement {
        let mut bytes = [0; BYTES];
        let (digest, shown) = bytes.split_at_mut(8);
        let all = xxh3_64_with_seed(details.as_bytes(), xxh3_64(text.as_bytes()));
        digest.copy_from_slice(&all.to_le_bytes());
        let mut end = text.len().min(shown.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        shown[..end].copy_from_slice(&text.as_bytes()[..end]);
        Announcement(bytes)
    }

    /// The description; a long one lacks its end.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0[8..]).trim_end_matches('\0').to_owned()
    }

    /// Gives the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes to receive into.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// An announcement to be received.
    pub fn empty() -> Announcement {
        Announcement([0; BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_still_told_apart() {
        let text = "é".repeat(300);
        let [one, other] = [format!("{text}1"), format!("{text}2")].map(|text| Announcement::new(&text));
        assert_eq!(one.text(), "é".repeat(124));
        assert_eq!(other.text(), one.text());
        assert_ne!(one, other);
        assert_eq!(Announcement::new("sum").text(), "sum");
        let [one, other] = ["a, b", "a, c"].map(|names| Announcement::with_details("sum of 2", names));
        assert_eq!(one.text(), other.text());
        assert_ne!(one, other);
    }
}
