//! Loops, locals, guards and indices: handwritten kernels against the interpreter, with and without vectors.

use crate::common;

use common::{all_options, check, compare, compile, filled, kernel, parse, run_parts};
use lowered_ir::interp;

/// Compares the text's kernel with the interpreter on memory from three seeds.
fn agrees(text: &str, bindings: &[i64]) {
    for seed in 1..4 {
        let ir = parse(text);
        let memory = filled(&ir, seed);
        check(ir, &memory, bindings);
    }
}

/// Kernels without symbols.
const KERNELS: &[&str] = &[
    // Unrolled loops are replicated.
    "routine @unrolled {
        node %0 \"x\" i32[3, 4]
        node %1 \"y\" i32[4]
        declare l0 i32[3, 4] register
        for i0 in 0..3 unrolled {
          for i1 in 0..4 unrolled {
            l0[i0, i1] := %0[i0, i1] * index i32(2*i0 - i1)
          }
        }
        for i2 in 0..4 unrolled {
          for i3 in 0..3 unrolled {
            %1[i2] := %1[i2] + l0[i3, i2]
          }
        }
        for i4 in 0..200 unrolled {
          %1[0] := %1[0] + index i32(i4)
        }
      }",
    // Scalars are carried through loops.
    "routine @carried {
        node %0 \"x\" f64[6, 7]
        node %1 \"y\" f64[6]
        declare l0 f64[] register
        for i0 in 0..6 {
          declare l1 f64[] register
          declare l2 bool[] register
          for i1 in 0..7 {
            l1 := max(%0[i0, i1], l1)
            l2 := or(l2, %0[i0, i1] < -10.0f64)
            l0 := l0 + where(l2, 1.0f64, %0[i0, i1])
          }
          %1[i0] := l0 * l1
        }
      }",
    // A tile of a product stays in registers.
    "routine @tile {
        node %0 \"a\" f32[4, 9]
        node %1 \"b\" f32[9, 24]
        node %2 \"c\" f32[4, 24]
        for i0 in 0..2 parallel {
          for i1 in 0..3 {
            declare l0 f32[2, 8] register
            for i2 in 0..9 {
              for i3 in 0..2 unrolled {
                for i4 in 0..8 vector {
                  l0[i3, i4] := fma(%0[2*i0 + i3, i2], %1[i2, 8*i1 + i4], l0[i3, i4])
                }
              }
            }
            for i5 in 0..2 unrolled {
              for i6 in 0..8 vector {
                %2[2*i0 + i5, 8*i1 + i6] := relu(l0[i5, i6])
              }
            }
          }
        }
      }",
    // Stack arrays are zero when declared.
    "routine @stack {
        node %0 \"x\" f32[6, 40]
        node %1 \"y\" f32[6, 40]
        for i0 in 0..6 parallel {
          declare l0 f32[40] stack
          for i1 in 0..40 {
            l0[39 - i1] := l0[39 - i1] + %0[i0, i1]
          }
          declare l1 u8[3, 100] stack
          l1[2, 99] := 7u8
          for i2 in 0..40 vector {
            %1[i0, i2] := l0[i2] + convert f32(l1[2, i2 + 60])
          }
        }
      }",
    // Stores are seen by loads.
    "routine @memory {
        node %0 \"x\" i32[16]
        node %1 \"y\" i32[16]
        node %2 \"z\" i32[2, 4]
        for i0 in 0..8 {
          %0[i0] := %0[i0] + 1i32
          %0[i0 + 8] := %0[i0] * 2i32
          %0[i0] := %0[2*i0] + %0[i0 + 8]
          %1[i0] := %0[i0] + %0[15 - i0]
        }
        for i1 in 0..4 vector {
          %2[1, i1] := %2[0, i1]
          %2[0, i1] := %2[1, i1] + %0[0]
        }
        for i2 in 1..16 {
          %0[i2] := %0[i2 - 1] + %0[i2]
        }
      }",
    // Random bits are moved.
    "routine @bits {
        node %0 \"x\" u32x4[6]
        node %1 \"y\" u32x4[6]
        node %2 \"z\" u32x4[3]
        for i0 in 0..6 vector {
          declare l0 u32x4[] register
          l0 := %0[5 - i0]
          %1[i0] := l0
        }
        for i1 in 0..3 {
          %2[i1] := guarded(0 <= 2*i1 - 1 < 3, %0[2*i1 - 1], 0x000102030405060708090a0b0c0d0e0f:u32x4)
        }
      }",
    // Unrolling ends before code gets out of hand.
    "routine @unrolled {
        node %0 \"x\" i32[2]
        for i0 in 0..60 unrolled { for i1 in 0..60 unrolled { for i2 in 0..60 unrolled {
          %0[0] := %0[0] * 3i32 + index i32(i0 + 2*i1 + 3*i2)
        } } }
      }",
];

#[test]
fn kernels_without_symbols() {
    KERNELS.iter().for_each(|text| agrees(text, &[]));
}

#[test]
fn vector_loops_of_every_length() {
    for n in 1..20 {
        for dtype in ["f32", "f64", "i64", "u8", "bool", "f16"] {
            let len = n + 3;
            agrees(
                &format!(
                    "routine @copy {{
                      node %0 \"x\" {dtype}[{len}]
                      node %1 \"y\" {dtype}[{len}]
                      for i0 in 0..{n} vector {{
                        %1[i0 + 2] := %0[i0 + 1]
                      }}
                    }}"
                ),
                &[],
            );
        }
    }
}

#[test]
fn long_vector_loops_become_loops() {
    for n in [257, 1000, 1021, 1024] {
        agrees(
            &format!(
                "routine @axpy {{
                  node %0 \"a\" f32[1]
                  node %1 \"x\" f32[{n}]
                  node %2 \"y\" f32[{n}]
                  for i0 in 0..{n} vector {{
                    declare l0 f32[] register
                    l0 := %0[0] * %1[i0]
                    %2[i0] := %2[i0] + l0
                  }}
                }}"
            ),
            &[],
        );
    }
}

#[test]
fn strides_of_every_kind() {
    for (x, y) in [
        ("i0, i1", "i1, i0"),
        ("i1, i0", "i0, i1"),
        ("i1, 0", "i0, i1"),
        ("0, i0", "i1, i0"),
        ("7 - i1, i0", "i0, 7 - i1"),
    ] {
        for dtype in ["f32", "i64", "u16", "bool"] {
            agrees(
                &format!(
                    "routine @permute {{
                      node %0 \"x\" {dtype}[8, 8]
                      node %1 \"y\" {dtype}[8, 8]
                      for i0 in 0..8 {{
                        for i1 in 0..8 vector {{
                          %1[{y}] := where(%0[{x}] == %0[{y}], %0[{x}], %0[{y}])
                        }}
                      }}
                    }}"
                ),
                &[],
            );
        }
    }
}

#[test]
fn loops_run_as_often_as_their_bounds_say() {
    let text = "routine @bounds {
      symbol @n in 0..20
      symbol @m in 0..5
      node %0 \"x\" f32[24]
      node %1 \"count\" i32[4]
      for i0 in 2..min(11, @n) {
        %0[i0 + @m] := %0[i0 + @m] * 2.0f32
        %1[0] := %1[0] + index i32(3*i0 - @m + 7)
      }
      for i1 in 5..5 {
        %1[1] := 77i32
      }
      for i2 in 3..4 {
        %1[2] := %1[2] + index i32(i2)
      }
      for i3 in 0..3 {
        for i4 in 1..min(3, @m) {
          %1[3] := %1[3] + index i32(10*i3 + i4)
        }
      }
    }";
    for n in [0, 1, 2, 3, 10, 11, 12, 19] {
        for m in 0..5 {
            agrees(text, &[n, m]);
        }
    }
}

#[test]
fn interleaved_partials_stay_in_registers() {
    for dtype in ["f32", "f64", "i32", "i64", "u8", "u16", "bool"] {
        agrees(
            &format!(
                "routine @sum {{
                  node %0 \"x\" {dtype}[5, 38]
                  node %1 \"y\" {dtype}[5]
                  for i0 in 0..5 {{
                    declare l0 {dtype}[32] register
                    for i1 in 0..1 {{
                      for i2 in 0..32 vector {{
                        l0[i2] := l0[i2] + %0[i0, 32*i1 + i2]
                      }}
                    }}
                    for i3 in 0..6 vector {{
                      l0[i3] := l0[i3] + %0[i0, i3 + 32]
                    }}
                    declare l1 {dtype}[16] register
                    for i4 in 0..16 vector {{ l1[i4] := l0[i4] + l0[i4 + 16] }}
                    declare l2 {dtype}[8] register
                    for i5 in 0..8 vector {{ l2[i5] := l1[i5] + l1[i5 + 8] }}
                    declare l3 {dtype}[4] register
                    for i6 in 0..4 vector {{ l3[i6] := l2[i6] + l2[i6 + 4] }}
                    declare l4 {dtype}[2] register
                    for i7 in 0..2 vector {{ l4[i7] := l3[i7] + l3[i7 + 2] }}
                    %1[i0] := l4[0] + l4[1]
                  }}
                }}"
            ),
            &[],
        );
    }
}

#[test]
fn guarded_reads_stay_inside() {
    for dtype in ["f32", "f64", "u8", "bool"] {
        let zero = if dtype == "bool" {
            "true".to_owned()
        } else {
            format!("3{}", if dtype.starts_with('f') { format!(".0{dtype}") } else { dtype.to_owned() })
        };
        for (n, kind) in [(7, ""), (7, " vector"), (12, " vector"), (12, " unrolled")] {
            agrees(
                &format!(
                    "routine @pad {{
                      symbol @k in 0..9
                      node %0 \"x\" {dtype}[3, 5]
                      node %1 \"y\" {dtype}[5, {n}]
                      node %2 \"tiny\" {dtype}[1]
                      node %3 \"z\" {dtype}[5, {n}]
                      for i0 in 0..5 {{
                        for i1 in 0..{n}{kind} {{
                          %1[i0, i1] := guarded(0 <= i0 - 1 < 3, 0 <= i1 - 1 < 5, %0[i0 - 1, i1 - 1], {zero})
                          %3[i0, i1] := guarded(4 <= @k < 5, 2 <= i0 < 3, %2[@k - 4], guarded(3 <= i0 < 6, 0 <= i1 < 5, %0[i0 - 3, i1], {zero}))
                        }}
                      }}
                    }}"
                ),
                &[4],
            );
        }
    }
}

#[test]
fn nodes_are_zeroed_whole() {
    for n in [1, 3, 15, 16, 17, 31, 255, 256, 257, 1000] {
        agrees(
            &format!(
                "routine @zero {{
                  node %0 \"x\" u8[{n}]
                  node %1 \"y\" u16[{n}]
                  node %2 \"z\" u8[1]
                  zero %0
                  %1[0] := 5u16
                  %2[0] := %0[{n} - 1] + 1u8
                  zero %1
                }}"
            ),
            &[],
        );
    }
}

#[test]
fn embedded_indices() {
    for kind in ["", " vector", " unrolled"] {
        agrees(
            &format!(
                "routine @index {{
                  symbol @s in 0..10
                  node %0 \"x\" i32[3, 9]
                  node %1 \"y\" i64[3, 9]
                  node %2 \"z\" f32[3, 9]
                  for i0 in 0..3 {{
                    for i1 in 0..9{kind} {{
                      %0[i0, i1] := index i32(100*i0 - 3*i1 + @s)
                      %1[i0, i1] := index i64(5*i1 - 70000000000) * %1[i0, i1]
                      %2[i0, i1] := where(index i32(i1) == index i32(2*i0 + 1), 1.0f32, %2[i0, i1])
                    }}
                  }}
                }}"
            ),
            &[6],
        );
    }
}

#[test]
fn the_merge_buffer_is_a_parameter() {
    let ir = parse(
        "routine @merge {
          node %0 \"sum\" f32[9]
          node %1 \"other\" f32[9]
          for i0 in 0..9 vector {
            %0[i0] := %0[i0] + merge %1[i0]
          }
        }",
    );
    let mut memory = filled(&ir, 5);
    memory.merge = Some(filled(&ir, 6).nodes.remove(1));
    check(ir, &memory, &[]);
}

#[test]
fn parts_of_a_parallel_loop_add_up() {
    let kernel = kernel(parse(
        "routine @parts {
          node %0 \"x\" f32[12, 10]
          node %1 \"y\" f32[12, 10]
          for i0 in 0..10 parallel {
            for i1 in 0..10 vector {
              %1[i0, i1] := %0[i0, i1] + %0[i0 + 1, i1]
            }
          }
        }",
    ));
    let memory = filled(kernel.ir(), 9);
    let mut expected = memory.clone();
    interp::run(kernel.ir(), &mut expected, &[]).expect("a valid kernel");
    for options in all_options() {
        let artifact = compile(&kernel, &options).expect("a supported kernel");
        for parts in [vec![(0, 10)], vec![(7, 10), (0, 3), (3, 7)], vec![(0, 0), (0, 1), (1, 10), (10, 10)]] {
            let found = run_parts(&artifact, &kernel, &memory, &[], &parts);
            compare(&kernel, &memory, &expected, &found, &format!("{parts:?}"));
        }
    }
}

#[test]
fn parallel_loops_that_cannot_be_split_run_whole() {
    for (range, before) in [("0..min(11, @n, @m + 3)", ""), ("1..11", ""), ("0..11", "zero %0")] {
        agrees(
            &format!(
                "routine @whole {{
                  symbol @n in 0..12
                  symbol @m in 0..12
                  node %0 \"x\" i32[12]
                  {before}
                  for i0 in {range} parallel {{
                    %0[i0] := %0[i0] + index i32(i0 + 1)
                  }}
                }}"
            ),
            &[7, 2],
        );
    }
}

#[test]
fn parts_of_a_loop_that_ends_at_a_symbol_end_there() {
    for n in [0, 1, 7, 11] {
        agrees(
            "routine @part {
              symbol @n in 0..12
              node %0 \"x\" i32[11]
              for i0 in 0..min(11, @n) parallel {
                %0[i0] := %0[i0] + index i32(i0 + 1)
              }
            }",
            &[n],
        );
    }
}

#[test]
fn loops_and_expressions_nest_deeply() {
    let depth = 250;
    let mut text = String::from("routine @deep {\n  node %0 \"x\" f32[4]\n");
    (0..depth).for_each(|i| text += &format!("for i{i} in 0..{} {{\n", if i % 50 == 0 { 2 } else { 1 }));
    let value = (0..depth).fold(String::from("%0[1]"), |value, _| format!("abs({value})"));
    text += &format!("%0[0] := %0[0] + {value}\n");
    text += &"}\n".repeat(depth);
    // The parser and the interpreter need more stack than a test's thread has; the compiler has its own
    // threads.
    let on_large_stack = std::thread::Builder::new().stack_size(64 << 20);
    let run = on_large_stack.spawn(move || agrees(&(text + "}\n"), &[])).expect("a thread starts");
    run.join().expect("deep kernels run");
}
