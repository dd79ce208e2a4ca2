//! Scans over time: their loops, their listing, and mistakes in them.

use crate::error_table::check;

use assignment_text::{Program, parse, unparse};
use assignments::indexing::StaticSymbol;
use assignments::lower::{LowerError, LowerOptions, lower};
use assignments::{Assignments, ProgramStep, builder};
use expect_test::{expect, expect_file};
use lowered_ir::ir::SymbolId;
use lowered_ir::text::print;
use tnode::{DType, TensorNode};

/// Loops, subexpressions, bounds and letters as values.
const RECURRENCE: &str = "input x f32[4, 8]
    node h f32[5, 8], n i32
    h[0,i] := 0
    n := 0
    scan t in 0..4 {
        s :+= h[t,i] where i <= t
        h[t + 1, i] := 0.5 * h[t,i] + x[3 - t, i] * s
        n += t
    }
    keep h, n";

fn lowered(program: &Assignments) -> Result<String, LowerError> {
    lower(program, &LowerOptions::default()).map(|lowered| print(&lowered.lowered.routine))
}

fn program() -> Assignments {
    parse(RECURRENCE, &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_letter_is_the_variable_of_a_loop() {
    expect![[r#"
        routine @s fast {
          node %0 "h" f32[5, 8] materialized
          node %1 "n" i32[] materialized
          node %2 "s" f32[]
          node %3 "_0_5_h_t_i" f32[8] virtual
          node %4 "x" f32[4, 8] materialized
          node %5 "x_3_t_i_s" f32[8] virtual
          comment "h[0,i] := 0"
          for i0 in 0..8 {
            %0[0, i0] := 0.0f32
          }
          comment "n := 0"
          %1[] := 0i32
          for i1 in 0..4 scan {
            comment "s :+= h[t,i] where i <= t"
            %2[] := 0.0f32
            for i2 in 0..min(8, i1 + 1) {
              %2[] := %2[] + %0[i1, i2]
            }
            comment "h[t + 1, i] := 0.5 * h[t,i] + x[3 - t, i] * s"
            for i3 in 0..8 {
              %3[i3] := 0.5f32 * %0[i1, i3]
            }
            for i4 in 0..8 {
              %5[i4] := %4[-i1 + 3, i4] * %2[]
            }
            for i5 in 0..8 {
              %0[i1 + 1, i5] := %3[i5] + %5[i5]
            }
            comment "n += t"
            %1[] := %1[] + index i32(i1)
          }
        }
    "#]]
    .assert_eq(&lowered(&program()).expect("lowers"));
}

#[test]
fn listings_have_the_body() {
    expect![[r#"
        # h[0,i] := 0
        h[0, i0] =: 0.0;
        # n := 0
        n =: 0;
        # scan t in 0..4;
          # s :+= h[t,i] where i <= t
          s =:+ h[t, i0] where i0 < t + 1;
          # h[t + 1, i] := 0.5 * h[t,i] + x[3 - t, i] * s
          _0_5_h_t_i[i0] =: 0.5 * h[t, i0];
          x_3_t_i_s[i0] =: x[-t + 3, i0] * s;
          h[t + 1, i0] =: _0_5_h_t_i[i0] + x_3_t_i_s[i0];
          # n += t
          n =+ t;
        # end
    "#]]
    .assert_eq(&program().to_string());
}

#[test]
fn scans_print_as_text() {
    expect![[r#"
        param h f32[5,8]
        node n i32[]
        node s f32[]
        input x f32[4,8]
        h[0,i] := 0
        n := 0
        scan t in 0..4 {
            s :+= h[t,i] where i < t + 1
            h[t + 1,i] := 0.5 * h[t,i] + x[3 - t,i] * s
            n += t
        }
        keep h
        keep n
    "#]]
    .assert_eq(&unparse(&program()));
    let expanded = Program::parse(RECURRENCE).and_then(|program| program.expand()).expect("expands");
    let again = Program::parse(&expanded.to_string()).and_then(|program| program.assignments(&[]));
    assert_eq!(unparse(&again.expect("reads back")), unparse(&program()));
    assert_eq!(unparse(&expanded.assignments(&[]).expect("resolves")), unparse(&program()));
}

/// One step needs no loop, and joined programs keep their scans apart.
#[test]
fn scans_join_and_vanish() {
    let one = "y := 0; scan t in 0..1 { y := y + t }; keep y";
    let text = lowered(&parse(one, &[]).expect("fits")).expect("lowers");
    assert!(!text.contains("for "), "{text}");
    let joined = program().then(parse("z := 1; scan t in 0..7 { z := z * t }; keep z", &[]).expect("fits"));
    let text = lowered(&joined.named("both")).expect("lowers");
    assert!(text.contains("in 0..4 scan {") && text.contains("in 0..7 scan {"), "{text}");
}

#[test]
fn mistakes_are_errors() {
    check(&expect_file!["../errors/scans.txt"], |text| match parse(text, &[]) {
        Err(error) => Some(error.to_string()),
        Ok(program) => lowered(&program).err().map(|error| error.to_string()),
    });
}

/// A letter outside of its scan, and a scan over a symbol that a run binds, can only be built in Rust.
#[test]
fn letters_belong_to_their_scans() {
    let y = TensorNode::builder("y").dtype(DType::I32).dims([]).build().expect("a number");
    let letter = builder::embed_symbol(&y, &StaticSymbol::step("t", 1, 4));
    let scan = |program: Assignments, symbol| Assignments {
        steps: vec![ProgramStep::Scan { symbol, steps: program.steps.clone(), end: None }],
        ..program
    };
    let error = |program: &Assignments| lowered(program).expect_err("a mistake").to_string();
    assert!(lowered(&scan(letter.clone(), SymbolId(0))).is_ok());
    assert_eq!(error(&letter), "letter t of a scan is mentioned outside of the scan");
    let bound = builder::embed_symbol(&y, &StaticSymbol::ranged("step", 4));
    let message = "no letter of a scan; expected one that `StaticSymbol::step` makes";
    assert_eq!(error(&scan(bound, SymbolId(0))), format!("symbol @step is {message}"));
    assert_eq!(error(&scan(letter, SymbolId(7))), format!("symbol number 7 is {message}"));
}
