//! The folders of files that are not open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

/// How many files are watched through each folder.
#[derive(Default)]
pub(super) struct Folders(HashMap<PathBuf, usize>);

impl Folders {
    /// Watches for changes to `file`; false if its folder cannot be watched.
    pub(super) fn enter(&mut self, watcher: &mut RecommendedWatcher, file: &Path) -> bool {
        let Some(folder) = file.parent() else { return false };
        let files = self.0.entry(folder.to_path_buf()).or_default();
        if *files == 0
            && let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive)
        {
            tracing::warn!(path = %folder.display(), %error, "the folder cannot be watched; its files stay open");
            self.0.remove(folder);
            return false;
        }
        *files += 1;
        true
    }

    pub(super) fn leave(&mut self, watcher: &mut RecommendedWatcher, file: &Path) {
        let Some(folder) = file.parent() else { return };
        let Some(files) = self.0.get_mut(folder) else { return };
        *files -= 1;
        if *files == 0 {
            self.0.remove(folder);
            let _ = watcher.unwatch(folder);
        }
    }
}
