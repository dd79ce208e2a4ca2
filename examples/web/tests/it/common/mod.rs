//! Opens pages in a browser, or skips the test.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::time::Duration;

use web::{
    browser::Browser,
    page::{Outcome, Page},
};

/// The time limit of a page.
const PATIENCE: Duration = Duration::from_secs(240);

/// The browser. Without one, the test is reported as skipped, or fails if the environment requires a browser.
#[track_caller]
pub(crate) fn browser(test: &str) -> Option<Browser> {
    codegen_testkit::gpu::or_skip(test, Browser::find().ok_or("no chromium"))
}

/// The report of a page in a browser.
pub(crate) fn run(browser: &Browser, page: &Page) -> Outcome {
    browser.run(&page.html().unwrap(), PATIENCE).unwrap()
}

/// The code generator for browsers.
pub(crate) fn codegen() -> codegen_wgsl::Wgsl {
    codegen_wgsl::wgsl(codegen_wgsl::baseline_caps(), codegen_wgsl::WgslOptions::default())
}
