//! Any bytes: the parser answers, and what it accepts prints and parses to the same text again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lowered_ir::text::{parse, print};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(routine) = parse(text) {
        let printed = print(&routine);
        let again = parse(&printed).expect("printed text parses");
        assert_eq!(printed, print(&again));
    }
});
