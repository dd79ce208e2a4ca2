//! The text of an error for the user of a program.

use std::error::Error;

/// Returns the messages of an error and of its causes, separated by colons. A message that the one before or
/// behind it quotes is left out, since many errors quote their cause.
///
/// ```
/// use std::io;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("cannot read x.onnx: {source}")]
/// struct Unreadable {
///     source: io::Error,
/// }
///
/// let source = io::Error::other("no disk");
/// assert_eq!(arrayjit::message_with_causes(&Unreadable { source }), "cannot read x.onnx: no disk");
/// ```
pub fn message_with_causes(error: &(dyn Error + 'static)) -> String {
    let mut messages = vec![error.to_string()];
    for cause in std::iter::successors(error.source(), |&error| error.source()) {
        let (cause, last) = (cause.to_string(), messages.len() - 1);
        if quotes(&cause, &messages[last]) {
            messages[last] = cause;
        } else if !quotes(&messages[last], &cause) {
            messages.push(cause);
        }
    }
    messages.join(": ")
}

/// Whether a text has a message as whole words. The message may be the name of a file, such as `dir`, of
/// which `a directory` is no quotation.
fn quotes(text: &str, message: &str) -> bool {
    let ends_word = |neighbor: Option<char>| !neighbor.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(message).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + message.len()..]);
        ends_word(before.chars().next_back()) && ends_word(behind.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::quotes;

    #[test]
    fn quotations_are_whole_words() {
        assert!(quotes("cannot read dir: no disk", "dir"));
        assert!(quotes("cannot read x.onnx: no disk", "no disk"));
        assert!(!quotes("Is a directory", "dir"));
        assert!(!quotes("a subdir", "dir"));
    }
}
