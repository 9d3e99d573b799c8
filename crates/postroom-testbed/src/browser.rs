//! A browser for tests of pages.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::program;

/// A browser that is driven without a window.
#[derive(Debug)]
pub struct Browser;

impl Browser {
    /// The environment variable that names the program.
    pub const VARIABLE: &str = "POSTROOM_TEST_CHROMIUM";

    /// Where Chromium is. It is installed where it is missing and we may.
    pub fn program() -> Result<PathBuf> {
        let variable = Self::VARIABLE;
        program::of_browser().with_context(|| format!("install it, or name a Chromium to test with in {variable}"))
    }
}
