//! The location of a file: who may read it, which file system it is on, and how much space is left.

use std::path::Path;

use crate::db::doctor::Facts;

/// File systems by their magic number in statfs(2), with their names and kinds.
#[cfg(any(target_os = "linux", test))]
const FILE_SYSTEMS: &[(u32, &str, &str)] = &[
    (0x6969, "NFS", "network"),
    (0x517B, "SMB", "network"),
    (0xFF53_4D42, "CIFS", "network"),
    (0xFE53_4D42, "SMB2", "network"),
    (0x0102_1997, "9p", "network"),
    (0x00C3_6400, "Ceph", "network"),
    (0x0BD0_0BD0, "Lustre", "network"),
    (0x5346_414F, "AFS", "network"),
    (0x6B41_4653, "AFS", "network"),
    (0x7375_7245, "Coda", "network"),
    (0x0116_1970, "GFS2", "network"),
    (0x7461_636F, "OCFS2", "network"),
    (0x6573_5546, "FUSE", "fuse"),
    (0x0102_1994, "tmpfs", "memory"),
    (0x8584_58F6, "ramfs", "memory"),
    (0x794C_7630, "overlay", "overlay"),
    (0xEF53, "ext", "disk"),
    (0x5846_5342, "XFS", "disk"),
    (0x9123_683E, "Btrfs", "disk"),
    (0x2FC1_2FC1, "ZFS", "disk"),
];

/// The name of a file system, and its kind.
#[cfg(any(target_os = "linux", test))]
fn file_system(magic: u32) -> Option<(&'static str, &'static str)> {
    FILE_SYSTEMS.iter().find(|(number, ..)| *number == magic).map(|(_, name, kind)| (*name, *kind))
}

/// Collects what can be seen from outside; a fact that this machine does not report is left out.
pub(crate) fn look(path: &Path, facts: &mut Facts) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if let Ok(file) = std::fs::metadata(path) {
            facts.add("mode", file.permissions().mode() & 0o777);
        }
        if let Ok(disk) = rustix::fs::statvfs(path) {
            facts.add("free_bytes", disk.f_bavail.saturating_mul(disk.f_frsize));
        }
    }
    #[cfg(target_os = "linux")]
    if let Ok(disk) = rustix::fs::statfs(path) {
        // The numbers have 32 bits, whatever type this machine uses for them.
        let magic = u32::try_from(i128::from(disk.f_type) & i128::from(u32::MAX)).unwrap_or_default();
        if let Some((name, kind)) = file_system(magic) {
            facts.add("file_system", name);
            facts.add("file_system.kind", kind);
        }
    }
    #[cfg(not(unix))]
    let _ = (path, facts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_number() {
        for (magic, kind) in [(0x6969, "network"), (0xFF53_4D42, "network"), (0x0102_1994, "memory"), (0xEF53, "disk")]
        {
            assert_eq!(file_system(magic).map(|(_, kind)| kind), Some(kind), "{magic:x}");
        }
        assert_eq!(file_system(1), None);
    }

    #[test]
    fn a_file_has_a_mode_and_room_around_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut facts = Facts::default();
        look(file.path(), &mut facts);
        if cfg!(unix) {
            assert_eq!(facts.number("mode"), Some(0o600));
            assert!(facts.number("free_bytes").is_some());
        }
    }
}
