//! A browser, or skip; and a page in it.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::time::Duration;

use web::{
    browser::Browser,
    page::{Outcome, Page},
};

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// The browser, or nothing on a machine without one, which is said and fails where it is required.
#[track_caller]
pub(crate) fn browser(test: &str) -> Option<Browser> {
    codegen_testkit::gpu::or_skip(test, Browser::find().ok_or("no chromium"))
}

/// What a page reports in a browser.
pub(crate) fn run(browser: &Browser, page: &Page) -> Outcome {
    browser.run(&page.html().unwrap(), PATIENCE).unwrap()
}

/// The code generator for browsers.
pub(crate) fn codegen() -> codegen_wgsl::Wgsl {
    codegen_wgsl::wgsl(codegen_wgsl::baseline_caps(), codegen_wgsl::WgslOptions::default())
}
