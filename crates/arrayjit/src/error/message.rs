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
        if cause.contains(&messages[last]) {
            messages[last] = cause;
        } else if !messages[last].contains(&cause) {
            messages.push(cause);
        }
    }
    messages.join(": ")
}
