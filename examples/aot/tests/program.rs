//! The program recognizes digits, and has the bits of code that was compiled in a process.

use std::process::Command;

#[test]
fn most_digits_are_recognized() {
    let output = Command::new(env!("CARGO_BIN_EXE_aot")).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let correct: usize = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(text.contains("of 359 images") && correct > 340, "{text}");
}
