//! Checks the listings of `docs/lowered-ir.md`: each is parsed, printed back, verified, and run if the
//! document says so.

use filetests::{File, Mode, check};

const DOCUMENT: &str = include_str!("../../../../docs/lowered-ir.md");

fn listings() -> impl Iterator<Item = &'static str> {
    DOCUMENT
        .split("```lir\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("the part before the fence"))
}

#[test]
fn every_listing_is_verified_and_runs() {
    assert_eq!(listings().count(), 6);
    for listing in listings() {
        let run = if listing.contains("; run:") { "test run\n" } else { "" };
        let file = File::new("docs/lowered-ir.md", &format!("test verify\n{run}{listing}"));
        let failures = check(&file, Mode::Compare);
        assert!(failures.is_empty(), "{listing}\n{}", failures[0]);
    }
}

/// Listings have the printer's style.
#[test]
fn every_listing_is_as_the_printer_writes_it() {
    for listing in listings() {
        let routine = lowered_ir::text::parse(listing).expect("verified by the other test");
        let source: Vec<&str> = listing.lines().filter(|line| !line.starts_with(';')).collect();
        assert_eq!(lowered_ir::text::print(&routine).trim_end(), source.join("\n"));
    }
}

/// The table lists every operation.
#[test]
fn every_operation_is_described() {
    use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
    let tokens = UnaryOp::ALL.iter().map(|op| op.token());
    let tokens = tokens.chain(BinaryOp::ALL.iter().map(|op| op.token()));
    for token in tokens.chain(TernaryOp::ALL.iter().map(|op| op.token())) {
        let described = [format!("`{token}"), format!(" {token} "), format!("`{token}`")];
        assert!(described.iter().any(|text| DOCUMENT.contains(text.as_str())), "{token} is not described");
    }
}
