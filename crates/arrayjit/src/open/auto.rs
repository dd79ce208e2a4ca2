//! The backend `auto`: the first backend of a fixed order that opens.

use super::built_in::{cuda, multicore, wgpu_on_hardware};
use crate::{error::OpenError, parts::BackendParts, settings::Settings};

/// The name that stands for the first backend of [`ORDER`] that opens.
pub(super) const NAME: &str = "auto";

/// A short description of `auto`, for lists of backends.
pub(super) const ABOUT: &str = "the first that opens of cuda, wgpu on a GPU and multicore";

/// A backend that `auto` may choose.
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) open: fn(&Settings) -> Result<BackendParts, OpenError>,
}

/// The fastest first. An adapter of wgpu that emulates a GPU on the CPU is slower than native code, so it is
/// never chosen. Registered backends are not among them: linking a crate must not move a program to another
/// device.
pub(super) const ORDER: &[Candidate] = &[
    Candidate { name: "cuda", open: cuda },
    Candidate { name: "wgpu", open: wgpu_on_hardware },
    Candidate { name: "multicore", open: multicore },
];

/// The chosen backend.
pub(super) struct Choice {
    pub(super) name: &'static str,
    pub(super) parts: BackendParts,
    /// The candidates before the chosen one, with the reasons why they did not open.
    pub(super) skipped: Vec<(&'static str, OpenError)>,
}

/// Opens the first candidate that opens.
///
/// # Errors
///
/// [`OpenError::NoneOpens`] with the reason of each candidate.
pub(super) fn choose(candidates: &[Candidate], settings: &Settings) -> Result<Choice, OpenError> {
    let mut skipped = Vec::new();
    for candidate in candidates {
        match (candidate.open)(settings) {
            Ok(parts) => return Ok(Choice { name: candidate.name, parts, skipped }),
            Err(why) => skipped.push((candidate.name, why)),
        }
    }
    Err(OpenError::NoneOpens { tried: skipped })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use codegen_core::interpreted::Interpreted;
    use device_runtime::{Device, NullDevice};

    use super::*;

    fn opens(_: &Settings) -> Result<BackendParts, OpenError> {
        Ok(BackendParts::new(Arc::new(Interpreted::new()), Device::new(Arc::new(NullDevice::new()), 0)))
    }

    fn is_not_built(_: &Settings) -> Result<BackendParts, OpenError> {
        Err(OpenError::NotBuilt { what: "such backend", feature: "such" })
    }

    fn is_software(_: &Settings) -> Result<BackendParts, OpenError> {
        Err(OpenError::SoftwareAdapter { adapter: "0: Rasterizer".into() })
    }

    fn choice(candidates: &[Candidate]) -> Result<(&'static str, Vec<&'static str>), OpenError> {
        let Choice { name, skipped, .. } = choose(candidates, &Settings::default())?;
        Ok((name, skipped.into_iter().map(|(name, _)| name).collect()))
    }

    #[test]
    fn the_order_is_the_documented_one() {
        assert_eq!(ORDER.iter().map(|c| c.name).collect::<Vec<_>>(), ["cuda", "wgpu", "multicore"]);
        assert!(ORDER.iter().all(|c| ABOUT.contains(c.name)), "{ABOUT}");
    }

    #[test]
    fn the_first_that_opens_is_chosen() {
        type Open = fn(&Settings) -> Result<BackendParts, OpenError>;
        let chosen = |cuda: Open, wgpu: Open, multicore: Open| {
            let candidates = [("cuda", cuda), ("wgpu", wgpu), ("multicore", multicore)];
            choice(&candidates.map(|(name, open)| Candidate { name, open })).expect("one of them opens")
        };
        let all = chosen(opens, opens, opens);
        let last = chosen(is_not_built, is_software, opens);
        let second = chosen(is_not_built, opens, opens);
        assert_eq!(all, ("cuda", vec![]));
        assert_eq!(last, ("multicore", vec!["cuda", "wgpu"]));
        assert_eq!(second, ("wgpu", vec!["cuda"]));
    }

    #[test]
    fn every_reason_is_said_if_none_opens() {
        let candidates =
            [Candidate { name: "cuda", open: is_not_built }, Candidate { name: "wgpu", open: is_software }];
        let error = choice(&candidates).expect_err("none opens").to_string();
        assert!(
            error.starts_with("no backend that `auto` may choose opens: cuda: this build has no"),
            "{error}"
        );
        assert!(error.contains("; wgpu: adapter 0: Rasterizer emulates a GPU"), "{error}");
    }
}
