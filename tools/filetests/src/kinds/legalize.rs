//! `test legalize`: the section is each routine after legalization, with only the operations that every
//! codegen supports.
//!
//! The target computes with integers, `f32` and `f64`; `without=TYPE` removes a type, and with
//! `contractions=yes` the target has kernels for contractions. If a file has `; run:` lines, the legalized
//! routine must meet the expectations of these lines too.

use codegen_core::{Caps, DTypeSet, Transcendental};
use lowered_ir::{text::print, verify::verify};
use scheduling::legalize;
use tnode::DType;

use super::{Kind, joined};
use crate::{
    Chunk, File,
    run_line::{self, RunLine},
};

pub(super) struct Legalize {
    caps: Caps,
}

impl Legalize {
    pub(super) fn new(args: &[&str]) -> Result<Legalize, String> {
        let (contractions, types): (Vec<&str>, Vec<&str>) =
            args.iter().partition(|arg| **arg == "contractions=yes");
        let without = types.into_iter().map(without).collect::<Result<Vec<_>, _>>()?;
        let native = |d: &DType| d.size_bytes() >= 4 || !d.is_float();
        let arithmetic = DType::ALL.into_iter().filter(|d| native(d) && *d != DType::U32x4);
        let arithmetic = arithmetic.filter(|d| !without.contains(d)).collect();
        let contractions =
            if contractions.is_empty() { DTypeSet::EMPTY } else { super::schedule::OPERAND_TYPES };
        let caps = Caps {
            arithmetic,
            transcendental: Transcendental::Expanded,
            contractions,
            ..super::schedule::caps()
        };
        Ok(Legalize { caps })
    }

    fn one(&self, chunk: Chunk<'_>, file: &File) -> Result<String, String> {
        let routine = chunk.parse().map_err(|e| e.to_string())?.routine;
        verify(&routine).map_err(|e| e.to_string())?;
        let legal = match legalize(&routine, &self.caps) {
            Ok(legal) => legal,
            Err(rejection) => return Ok(format!("; {rejection}\n")),
        };
        verify(&legal).map_err(|e| format!("legalized: {e}"))?;
        for (line, text) in chunk.annotations("run") {
            let run =
                run_line::parse(text, &legal, &file.path, line).map_err(|e| format!("line {line}: {e}"))?;
            if let RunLine::Runs(case) = run {
                let nodes = case.interpret().map_err(|e| format!("line {line}: {e}"))?;
                case.check(&nodes)?;
            }
        }
        Ok(print(&legal))
    }
}

fn without(arg: &str) -> Result<DType, String> {
    let name = arg.strip_prefix("without=").ok_or_else(|| format!("there is no setting `{arg}`"))?;
    name.parse().map_err(|e: tnode::UnknownDType| e.to_string())
}

impl Kind for Legalize {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let texts = file.chunks().map(|chunk| self.one(chunk, file)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(joined(texts)))
    }
}
