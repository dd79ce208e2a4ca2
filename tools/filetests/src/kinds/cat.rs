//! `test cat`: parse and print. The section is the printed text, which must parse to itself.

use lowered_ir::text::{parse, print};

use super::{Kind, joined};
use crate::File;

pub(super) struct Cat;

impl Kind for Cat {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let routines = file.routines().map_err(|e| e.to_string())?;
        let texts: Vec<String> = routines.iter().map(|parsed| print(&parsed.routine)).collect();
        for text in &texts {
            let again = parse(text).map_err(|e| format!("what was printed does not parse: {e}"))?;
            if print(&again) != *text {
                return Err(format!(
                    "printed, parsed and printed again:\n{text}\nbecomes\n{}",
                    print(&again)
                ));
            }
        }
        Ok(Some(joined(texts)))
    }
}
