//! Random programs over sizes of a run have the values of the programs for constant sizes, in which scans are
//! repetitions: reductions, products of matrices, windows with margins, scans with early ends and
//! checkpoints, and gradients through all of them.
//!
//! The variable `EFFORT` says how many programs (`random_programs::effort`).
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::sync::Arc;

use arrayjit::{BackendParts, Device, prelude::*, settings::NumericClass};
use codegen_core::{Caps, Interpreted, Transcendental, Workgroups};
use random_programs::{SplitMix64, effort};

use scheduler_multicore::{Cpu, CpuConfig};

use crate::run_sizes::{open, random};

/// The inputs of a random program, with the letters of their axes: `i` for `n`, `j` for `m`, `h` for half of
/// `n`, `k` for a constant. The filter `f` has two more axes of 3 in front.
const INPUTS: [(&str, &str); 7] =
    [("x", "ik"), ("u", "i"), ("v", "j"), ("w", "h"), ("c", "k"), ("image", "kij"), ("f", FILTER_AXES)];

/// The axes of the filter.
const FILTER_AXES: &str = "33kk";

/// The letters of a statement that range over an axis: of its result, and further ones.
fn letters_of(axis: char) -> [char; 3] {
    match axis {
        'i' => ['i', 'p', 'a'],
        'j' => ['j', 'q', 'b'],
        'h' => ['h', 'g', 'o'],
        _ => ['k', 'r', 'l'],
    }
}

/// A random program over the inputs.
struct RandomText {
    random: SplitMix64,
    /// The constant extent.
    width: usize,
    /// The nodes with the letters of their axes.
    nodes: Vec<(String, String)>,
    text: String,
    has_scan: bool,
    /// The inputs by which a loss is differentiated.
    gradients: Vec<&'static str>,
}

impl RandomText {
    fn of(seed: u64) -> RandomText {
        let nodes = INPUTS.map(|(name, axes)| (name.to_owned(), axes.to_owned())).to_vec();
        let mut program = RandomText {
            random: SplitMix64::new(seed),
            width: 6,
            nodes,
            text: String::new(),
            has_scan: false,
            gradients: Vec::new(),
        };
        program.width = [6, 6, 8, 17][program.below(4)];
        let statements = 3 + program.below(5);
        for at in 0..statements {
            match program.below(10) {
                0 | 1 => program.scan(at),
                2 | 3 => program.product(at),
                4 => program.window(at),
                _ => program.statement(at),
            }
        }
        if program.below(2) == 0 {
            program.gradient();
        }
        program
    }

    fn below(&mut self, count: usize) -> usize {
        (self.random.word() % count as u64) as usize
    }

    fn add(&mut self, name: String, axes: impl Into<String>) {
        self.nodes.push((name, axes.into()));
    }

    /// Adds a statement. `p`, `q`, `g` and `r` are further letters below `n`, `m`, half of `n`, and the
    /// constant.
    fn statement(&mut self, at: usize) {
        let axes = ["i", "j", "k", "h", "ij", "ik", "ji", "hk", "jh", "kij", ""][self.below(11)];
        let others = ["", "", "p", "q", "r", "g", "pq", "pr", "qg"][self.below(9)];
        let mut letters: Vec<char> = axes.chars().chain(others.chars()).collect();
        if letters.is_empty() {
            letters.push('p');
        }
        let bases = letters.iter().map(|letter| match letter {
            'i' | 'p' => format!("u[{letter}]"),
            'j' | 'q' => format!("v[{letter}]"),
            'h' | 'g' => format!("w[{letter}]"),
            _ => format!("c[{letter}]"),
        });
        let mut value = bases.collect::<Vec<_>>().join(" - ");
        for _ in 0..1 + self.below(3) {
            if let Some(read) = self.read(&letters) {
                let op = ["+", "-", "*"][self.below(3)];
                value = format!("({value}) {op} {read}");
            }
        }
        value = match self.below(5) {
            0 => format!("tanh({value}) / n"),
            1 => format!("max({value}, 0.1 * m)"),
            _ => format!("tanh({value})"),
        };
        let is_reduced = letters.len() > axes.len();
        let op = if is_reduced { [":+=", ":max=", ":min="][self.below(3)] } else { ":=" };
        let is_triangle = letters.contains(&'i') && letters.contains(&'p') && self.below(2) == 0;
        let bound = match is_triangle {
            true if op == ":+=" => " where p <= i",
            true => " where p >= i",
            false => "",
        };
        self.text += &format!("t{at}[{}] {op} {value}{bound}\n", indices(axes));
        self.add(format!("t{at}"), axes);
    }

    /// Adds a product of two nodes that share an axis, along which it sums.
    fn product(&mut self, at: usize) {
        let matrices: Vec<_> = self.nodes.iter().filter(|(_, axes)| is_distinct(axes)).cloned().collect();
        let (a, b) = (&matrices[self.below(matrices.len())], &matrices[self.below(matrices.len())]);
        let Some(shared) = a.1.chars().find(|&axis| b.1.contains(axis)) else { return self.statement(at) };
        let mut used = vec![letters_of(shared)[1]];
        let mut axes = String::new();
        let mut read = |(name, of): &(String, String)| {
            let letters = of.chars().map(|axis| {
                if axis == shared {
                    return used[0];
                }
                let letter = letters_of(axis).into_iter().find(|letter| !used.contains(letter)).unwrap();
                used.push(letter);
                axes.push(axis);
                letter
            });
            format!("{name}[{}]", indices(&letters.collect::<String>()))
        };
        let value = format!("{} * {}", read(a), read(b));
        if axes.len() > 3 {
            return self.statement(at);
        }
        self.text += &format!("t{at}[{}] :+= {value}\n", indices(&used[1..].iter().collect::<String>()));
        self.add(format!("t{at}"), axes);
    }

    /// Adds a convolution or a pool with margins, in one or two dimensions. The first may have a stride.
    fn window(&mut self, at: usize) {
        let is_image = |axes: &str| matches!(axes, "ik" | "kij");
        let images: Vec<_> = self.nodes.iter().filter(|(_, axes)| is_image(axes)).cloned().collect();
        let (name, axes) = &images[self.below(images.len())];
        let margin = ["0", "-1"][self.below(2)];
        let (row, letter, size) = [("i + d - 1", 'i', "n"), ("2*h + d - 1", 'h', "half")][self.below(2)];
        let (target, read, filter, bound) = match axes.as_str() {
            "ik" => (format!("{letter}k"), format!("{row}, CHANNEL"), "f[d,0,r,k]", "d < 3".to_owned()),
            _ => (
                format!("k{letter}j"),
                format!("CHANNEL, {row}, j + e - 1"),
                "f[d,e,r,k]",
                "j < m, d < 3, e < 3".to_owned(),
            ),
        };
        let (op, channel, filter) = match self.below(3) {
            0 => (":max=", "k", String::new()),
            _ => (":+=", "r", format!(" * {filter}")),
        };
        let read = read.replace("CHANNEL", channel);
        let width = if channel == "k" { format!(", k < {}", self.width) } else { String::new() };
        self.text += &format!(
            "t{at}[{}] {op} pad({name}, {margin})[{read}]{filter} where {letter} < {size}, {bound}{width}\n",
            indices(&target)
        );
        self.add(format!("t{at}"), target);
    }

    /// Adds a scan over a size, which may end early or have checkpoints.
    fn scan(&mut self, at: usize) {
        self.has_scan = true;
        let (axis, size, rows, divisor) =
            [('i', "n", "u", 5), ('j', "m", "v", 4), ('h', "half", "w", 5)][self.below(3)];
        let row = ["t".to_owned(), format!("{size} - 1 - t")][self.below(2)].clone();
        let end = ["".to_owned(), format!(" while g{at} < 4")][self.below(2)].clone();
        let checkpoints = ["".to_owned(), format!(" checkpoint every {divisor}")][self.below(2)].clone();
        let input = format!("{rows}[{row}] * c[k]");
        let value = [
            format!("z{at}[k] := s{at}[k] + {input}"),
            format!("z{at}[k] :+= s{at}[r] * c[k] - {input}"),
            format!("z{at}[k] :+= s{at}[r] * f[0,1,r,k]"),
            format!("z{at}[k] := max(s{at}[k], {input}) / n"),
        ];
        let value = &value[self.below(4)];
        self.text += &format!(
            "node y{at} f32[{size}, {}]\ny{at}[{axis},k] := 0.5\ng{at} :+= 0 * c[r]\ns{at}[k] := c[k]\n\
             scan t in 0..{size}{end}{checkpoints} {{\n {value}\n s{at}[k] := tanh(z{at}[k])\n \
             y{at}[{row}, k] := s{at}[k] + {rows}[t]\n g{at} += 1\n}}\n",
            self.width
        );
        self.add(format!("y{at}"), format!("{axis}k"));
        self.add(format!("s{at}"), "k");
        self.add(format!("g{at}"), "");
    }

    /// Adds a loss of two nodes, and its gradient by the inputs that the text mentions.
    fn gradient(&mut self) {
        let made = self.nodes.len() - INPUTS.len();
        let mut terms = Vec::new();
        for _ in 0..2 {
            let at = INPUTS.len() + self.below(made);
            let (name, axes) = self.nodes[at].clone();
            let mut counts = std::collections::BTreeMap::new();
            let letters = axes.chars().map(|axis| {
                let count = counts.entry(axis).or_insert(0);
                *count += 1;
                letters_of(axis)[*count - 1]
            });
            let read = format!("{name}[{}]", indices(&letters.collect::<String>()));
            terms.push([format!("{read} * {read}"), format!("tanh({read})")][self.below(2)].clone());
        }
        let is_mentioned =
            |name: &&str| ["{}[", "({},"].iter().any(|read| self.text.contains(&read.replace("{}", name)));
        self.gradients = INPUTS.iter().map(|(name, _)| *name).filter(is_mentioned).collect();
        self.text += &format!(
            "loss :+= {}\nloss += {}\ngrad loss by {}\n",
            terms[0],
            terms[1],
            self.gradients.join(", ")
        );
    }

    /// A read of a random node at letters in scope; none if an axis has no letter.
    fn read(&mut self, letters: &[char]) -> Option<String> {
        let at = self.below(self.nodes.len());
        let (name, axes) = self.nodes[at].clone();
        let (mut indices, mut is_shifted) = (Vec::new(), false);
        for axis in axes.chars() {
            let width = self.width.to_string();
            // The elements of `n` at even positions are as many as half of it.
            let (indices_of_axis, size): (&[&str], &str) = match axis {
                'i' => (&["i", "p", "2*h", "2*g"], "n"),
                'j' => (&["j", "q"], "m"),
                'h' => (&["h", "g"], "half"),
                'k' => (&["k", "r"], &width),
                _ => return None,
            };
            let is_in_scope = |index: &&str| index.chars().any(|letter| letters.contains(&letter));
            let own: Vec<&str> = indices_of_axis.iter().copied().filter(is_in_scope).collect();
            let letter = *own.get(self.below(own.len().max(1)))?;
            indices.push(match self.below(6) {
                0 => format!("{size} - 1 - {letter}"),
                1 => {
                    is_shifted = true;
                    format!("{letter} + {} - 1", self.below(4))
                }
                _ => letter.to_owned(),
            });
        }
        let name = if is_shifted { format!("pad({name}, 0.5)") } else { name };
        Some(format!("{name}[{}]", indices.join(",")))
    }

    /// The names of the values that a run returns.
    fn kept(&self) -> Vec<String> {
        let made = self.nodes[INPUTS.len()..].iter().map(|(name, _)| name.clone());
        made.chain(self.gradients.iter().map(|name| format!("{name}.grad"))).collect()
    }

    /// The whole text over sizes of a run.
    fn over_sizes(&self, (n, m): (usize, usize)) -> String {
        self.whole(&format!("n <= {n}, m <= {m}"), &self.text)
    }

    /// The whole text for constants. Steps are copies of statements, unless a condition ends them. The copies
    /// write all elements of the node that is filled for a scan.
    fn over_constants(&self, (n, m): (usize, usize)) -> String {
        let mut lines: Vec<String> = Vec::new();
        for line in self.text.lines() {
            let head = line.split(" checkpoint").next().unwrap_or(line).trim_end_matches(" {");
            if line.starts_with("scan") && !line.contains("while") {
                let fill = lines.iter().rposition(|line| line.ends_with(" := 0.5"));
                lines.remove(fill.unwrap());
                lines.push(format!("{} {{", head.replace("scan", "repeat")));
            } else if line.starts_with("scan") {
                lines.push(format!("{head} {{"));
            } else {
                lines.push(line.to_owned());
            }
        }
        self.whole(&format!("n = {n}, m = {m}"), &(lines.join("\n") + "\n"))
    }

    fn whole(&self, sizes: &str, statements: &str) -> String {
        let (k, kept) = (self.width, self.kept().join(", "));
        format!(
            "size {sizes}\nsize half = (n + 1)/2\n\
             input x f32[n, {k}], u f32[n], v f32[m], w f32[half], c f32[{k}]\n\
             input image f32[{k}, n, m], f f32[3, 3, {k}, {k}]\n\
             {statements}keep {kept}\n"
        )
    }
}

/// Whether no two axes are of the same extent.
fn is_distinct(axes: &str) -> bool {
    !axes.is_empty() && axes.chars().enumerate().all(|(at, axis)| !axes[..at].contains(axis))
}

/// Letters with commas between them.
fn indices(letters: &str) -> String {
    letters.chars().map(String::from).collect::<Vec<_>>().join(",")
}

/// The values that a program keeps, for each run.
fn results(
    backend: &Backend,
    program: &RandomText,
    text: &str,
    runs: &[(usize, usize)],
) -> Vec<Vec<Vec<f64>>> {
    let mut loaded = backend.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let run = |&(n, m): &(usize, usize)| {
        let size = |letter| match letter {
            'i' => n,
            'j' => m,
            'h' => n.div_ceil(2),
            '3' => 3,
            _ => program.width,
        };
        for (seed, (name, axes)) in INPUTS.into_iter().enumerate() {
            let dims: Vec<usize> = axes.chars().map(size).collect();
            if loaded.code().nodes().iter().any(|node| node.name() == name) {
                loaded.set(name, random(&dims, seed as u64)).unwrap();
            }
        }
        let given = [("n", n as i64), ("m", m as i64)];
        let known =
            |(name, _): &(&str, i64)| loaded.code().symbols().iter().any(|symbol| symbol.name == *name);
        let given: Vec<_> = given.into_iter().filter(known).collect();
        loaded.run_with(&given).unwrap_or_else(|error| panic!("{error}\n{text}"));
        program.kept().iter().map(|name| loaded.get(name).unwrap().values()).collect()
    };
    runs.iter().map(run).collect()
}

/// Checks the program of a seed on one backend, for two pairs of sizes and for the greatest sizes.
/// Scans of programs over sizes get checkpoints in half of the programs, if they have gradients. In half of
/// them nodes are rematerialized however small they are.
fn check(seed: u64, name: &str, backend: &Backend) {
    let mut settings = backend.settings().clone();
    settings.scan_gradient_bytes = seed / 3 % 2;
    let limited = Backend::open_with(backend.name(), &settings).unwrap();
    let mut optimizer = settings.optimizer();
    if (seed / 6).is_multiple_of(2) {
        optimizer.rematerialized_bytes = 1;
    }
    let limited = limited.with_optimizer(optimizer);
    let program = RandomText::of(seed);
    let mut draw = SplitMix64::new(!seed);
    // Repetitions of many steps would take long to compile. Threads divide long loops, which the interpreter
    // runs slowly.
    let bounds = match draw.word() % 4 {
        _ if program.has_scan => (10, 8),
        0 if name != "interpreter" => (160, 96),
        _ => (24, 16),
    };
    let mut size = |bound: usize| 1 + (draw.word() % bound as u64) as usize;
    let runs = [(size(bounds.0), size(bounds.1)), (size(bounds.0), size(bounds.1)), bounds];
    let found = results(&limited, &program, &program.over_sizes(bounds), &runs);
    for (&sizes, found) in runs.iter().zip(&found) {
        let expected = results(backend, &program, &program.over_constants(sizes), &[sizes]).remove(0);
        for ((node, expected), found) in program.kept().iter().zip(&expected).zip(found) {
            let is_equal = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
            assert!(
                expected.len() == found.len() && expected.iter().zip(found).all(is_equal),
                "seed {seed} on {name}: {node} for {sizes:?} is\n{found:?}, expected\n{expected:?}\n{}",
                program.over_sizes(bounds)
            );
        }
    }
}

#[test]
fn random_programs_have_the_values_of_their_own_routines() {
    let backends = [("interpreter", 1), ("inline", 1), ("multicore", 3)];
    let backends = backends.map(|(name, threads)| (name, open(name, threads, NumericClass::Strict)));
    for seed in effort::seeds(40) {
        let (name, backend) = &backends[seed as usize % 3];
        check(seed, name, backend);
    }
}

/// Runs the schedules for a GPU on the interpreter.
fn scheduled_for_a_gpu(numerics: NumericClass) -> Backend {
    let arithmetic = DType::ALL.into_iter().collect();
    let caps = Caps::gpu("a GPU", Workgroups::new(256, 48 << 10));
    let caps = Caps { arithmetic, transcendental: Transcendental::Native, ..caps };
    let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
    let parts = BackendParts::new(Arc::new(Interpreted::of_target(caps)), device);
    let mut settings = Settings::default();
    settings.numerics = numerics;
    Backend::from_parts("interpreted GPU", parts, &settings).unwrap()
}

/// Schedules for GPUs give loops the ends that they have at most. Class strict keeps all bits; class fast
/// reduces in another order, with errors in proportion to the greatest value, since programs subtract what is
/// nearly equal.
#[test]
fn random_programs_have_these_values_on_schedules_for_a_gpu() {
    let definition = open("interpreter", 1, NumericClass::Strict);
    let strict = (scheduled_for_a_gpu(NumericClass::Strict), 0.0);
    let targets = [strict, (scheduled_for_a_gpu(NumericClass::Fast), 1e-4)];
    for seed in effort::seeds(12) {
        let program = RandomText::of(seed);
        let bounds = if program.has_scan { (10, 8) } else { [(24, 16), (40, 70)][seed as usize % 2] };
        let mut draw = SplitMix64::new(!seed);
        let mut size = |bound: usize| 1 + (draw.word() % bound as u64) as usize;
        for sizes in [(size(bounds.0), size(bounds.1)), bounds] {
            let constants = program.over_constants(sizes);
            let expected = results(&definition, &program, &constants, &[sizes]).concat();
            let greatest = expected.concat().into_iter().map(f64::abs).fold(1.0, f64::max);
            for (backend, tolerance) in &targets {
                let found = results(backend, &program, &program.over_sizes(bounds), &[sizes]).concat();
                let is_near = |(a, b): (&f64, &f64)| {
                    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * greatest
                };
                for ((node, expected), found) in program.kept().iter().zip(&expected).zip(&found) {
                    assert!(
                        expected.len() == found.len() && expected.iter().zip(found).all(is_near),
                        "seed {seed}, tolerance {tolerance}: {node} for {sizes:?} is\n{found:?}, expected\n\
                         {expected:?}\n{}",
                        program.over_sizes(bounds)
                    );
                }
            }
        }
    }
}

/// A generator that leaves out a construct would prove nothing about it.
#[test]
fn random_programs_have_all_constructs() {
    let texts: Vec<String> = (0..200).map(|seed| RandomText::of(seed).text).collect();
    for construct in ["scan", "while", "checkpoint", "grad", "pad(", "2*h + d", "d,e", ":max= pad", "f[0,1"] {
        let count = texts.iter().filter(|text| text.contains(construct)).count();
        assert!(count >= 5, "{count} of 200 programs have `{construct}`");
    }
}
