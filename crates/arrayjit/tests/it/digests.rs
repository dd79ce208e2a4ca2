//! The same bits on every processor: digests of results, made on x86-64, hold for every architecture and
//! width of vectors.
//!
//! The programs are the corpus of `.lir` files, random routines, random programs of assignments in both
//! numeric classes, and some steps of training on the digits. All NaNs count as equal. `BLESS=1` with
//! `UPDATE_EXPECT=1` rewrites the digests; a changed line means other bits for users.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::fmt::Write;
use std::path::Path;

use arrayjit::settings::{NumericClass, VectorSetting};
use arrayjit::{Backend, Settings};
use codegen_core::Codegen;
use codegen_testkit::{Outcome, results};
use digits::{data, network, state::Network};
use expect_test::expect_file;
use filetests::RunCase;
use filetests::generate::{GeneratedProgram, Numbers, observed, routine_from_seed};
use lowered_ir::ir::Numerics;
use random_programs::{ProgramWeights, RandomProgram, bytes_of_seed, program_from_seed};
use tnode::{DType, Scalar};

/// The numbers of random routines and of random programs.
const ROUTINES: u64 = 40;
const PROGRAMS: u64 = 30;

/// The steps of training.
const STEPS: i64 = 20;

/// The digest of some elements: FNV-1a.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, dtype: DType, bytes: &[u8]) {
        for element in bytes.chunks(dtype.size_bytes()) {
            let is_nan = dtype.is_float() && Scalar::read(dtype, element).unwrap().as_f64().is_nan();
            for &byte in if is_nan { b"NaN" } else { element } {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}

/// The digest of the nodes after a run, or why there is none.
fn digest(codegen: &dyn Codegen, case: &RunCase) -> String {
    match results(codegen, case) {
        Ok(nodes) => {
            let mut digest = Digest::new();
            nodes.iter().for_each(|(dtype, bytes)| digest.add(*dtype, bytes));
            format!("{:016x}", digest.0)
        }
        Err(Outcome::Skipped(_)) => "unsupported".to_owned(),
        Err(outcome) => panic!("{outcome:?} of\n{}", case.to_lir()),
    }
}

fn backend(vector: VectorSetting, numerics: NumericClass) -> Option<Backend> {
    let mut settings = Settings::default();
    (settings.vector, settings.numerics) = (vector, numerics);
    Backend::open_with("inline", &settings).ok()
}

/// The digest of the nodes after a random program of assignments, or `rejected`.
fn of_program(codegen: &dyn Codegen, program: &RandomProgram, numerics: Numerics) -> String {
    let case = GeneratedProgram::of(program).run_case(program, numerics, Numbers::Fractions);
    case.map_or_else(|_| "rejected".to_owned(), |case| digest(codegen, &case))
}

/// The digest of all weights after some steps of training, and the loss.
fn of_training(backend: &Backend) -> String {
    let mut rng = fastrand::Rng::with_seed(7);
    let (train, test) = data::split(&data::load(Path::new(data::FILE)).unwrap(), &mut rng);
    let network = Network::new(train.count(), test.count()).unwrap();
    let context = network.upload(backend, &train, &test, &mut rng).unwrap();
    let step = backend.compile(network::TRAIN, network.nodes()).unwrap().link(&context).unwrap();
    (0..STEPS).for_each(|batch| drop(step.run(&[batch]).unwrap()));
    let read = |name| step.context().to_host(network.node(name)).unwrap();
    let mut digest = Digest::new();
    for name in ["w1", "b1", "w2", "b2"] {
        digest.add(DType::F32, read(name).bytes());
    }
    let loss = read("loss").item().unwrap() as f32;
    format!("weights {:016x}, sum of losses {:08x}", digest.0, loss.to_bits())
}

/// The digests with vectors of a width; `None` if this machine lacks them.
fn digests(vector: VectorSetting) -> Option<String> {
    let strict = backend(vector, NumericClass::Strict)?;
    let fast = backend(vector, NumericClass::Fast)?;
    let mut text = String::new();
    for case in filetests::run_cases() {
        let file = case.path.strip_prefix(filetests::corpus_dir()).unwrap();
        let found = digest(strict.codegen(), &case);
        writeln!(text, "{}:{} {found}", file.display(), case.line).unwrap();
    }
    for seed in 0..ROUTINES {
        let case = RunCase::drawn(routine_from_seed(seed, 200), &bytes_of_seed(seed ^ 0x5eed, 4096));
        writeln!(text, "routine {seed} {}", digest(strict.codegen(), &case)).unwrap();
    }
    let weights = ProgramWeights::large_nodes();
    for seed in 0..PROGRAMS {
        let program = observed(program_from_seed(seed, 300, &weights));
        let [strict, fast] = [(&strict, Numerics::Strict), (&fast, Numerics::Fast)]
            .map(|(backend, numerics)| of_program(backend.codegen(), &program, numerics));
        writeln!(text, "program {seed} strict {strict} fast {fast}").unwrap();
    }
    writeln!(text, "training on the digits: {}", of_training(&fast)).unwrap();
    Some(text)
}

#[test]
fn results_have_the_same_bits_on_every_processor() {
    use VectorSetting::{Avx2, Avx512, Bits128, Mixed, Neon, None};
    let found = digests(None).unwrap();
    expect_file!["digests.txt"].assert_eq(&found);
    for vector in [Bits128, Neon, Avx2, Mixed, Avx512] {
        let Some(of_width) = digests(vector) else { continue };
        let differ = found.lines().zip(of_width.lines()).find(|(none, some)| none != some);
        assert_eq!(differ, Option::None, "{vector:?} differs from scalar code");
    }
}
