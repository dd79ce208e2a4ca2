//! `cargo xtask assign` on a file.

use std::fs;

use xtask::assign::expand;

#[test]
fn a_program_is_printed_expanded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mean.assign");
    let text = "size n, halves = n / 2\n\
                def mean(x[..,k]) -> m[..] { m[..] :+= x[..,k] / size(k) }\n\
                m[i] := mean(x[i,k] + 1)\n\
                repeat h in 0..halves { y[h] := m[2*h] }\n";
    fs::write(&file, text).expect("written");
    let shown = |sizes: &[&str]| {
        let sizes: Vec<String> = sizes.iter().map(|&size| size.to_owned()).collect();
        expand(&file, &sizes).map_err(|error| format!("{error:#}"))
    };
    let expected = "mean.1.x[i,k] := x[i,k] + 1\n\
                    m[i] :+= mean.1.x[i,k] / size(k)\n\
                    y[0] := m[2*0]\n\
                    y[1] := m[2*1]\n";
    assert_eq!(shown(&["n=4"]).as_deref(), Ok(expected));
    let open = shown(&[]).expect_err("no value");
    assert!(open.contains("line 1, column 6: size `n` has no value"), "{open}");
    assert!(shown(&["n"]).expect_err("no value").contains("expected `--size NAME=VALUE`, found `n`"));
    assert!(shown(&["m=1"]).expect_err("no size").contains("the text has no size `m`"));
}
