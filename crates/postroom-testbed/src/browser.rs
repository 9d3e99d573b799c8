//! A browser for tests of web pages.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::program;

/// A browser without a window, controlled by tests.
#[derive(Debug)]
pub struct Browser;

impl Browser {
    /// The environment variable that names the program.
    pub const VARIABLE: &str = "POSTROOM_TEST_CHROMIUM";

    /// Returns the path of Chromium. If it is missing, it is installed where that is permitted.
    pub fn program() -> Result<PathBuf> {
        let variable = Self::VARIABLE;
        program::of_browser().with_context(|| format!("install it, or name a Chromium to test with in {variable}"))
    }
}
