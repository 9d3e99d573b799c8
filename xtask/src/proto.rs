//! `cargo xtask proto`: generates the gRPC code of the library from its `.proto` file, without Google's compiler. The
//! code is committed, so that nobody has to generate it to build the library.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::run;

const FOLDER: &str = "crates/postroom-services/proto";
const FILE: &str = "postroom/v1/receiver.proto";
/// The generator names its file after the proto package.
const OUTPUT: &str = "postroom.v1.rs";
/// The path of the committed code.
pub(crate) const GENERATED: &str = "crates/postroom-services/src/transport/grpc/generated.rs";

/// Regenerates the code.
pub(crate) fn write() -> Result<()> {
    fs::write(run::root().join(GENERATED), generate(&run::root())?).with_context(|| format!("cannot write {GENERATED}"))
}

/// Fails if the committed code does not match the `.proto` file.
pub(crate) fn check() -> Result<()> {
    let committed = fs::read_to_string(run::root().join(GENERATED)).unwrap_or_default();
    if committed != generate(&run::root())? {
        bail!("{GENERATED} is not what {FOLDER}/{FILE} says: run `cargo xtask proto` and commit what it writes");
    }
    Ok(())
}

fn generate(root: &Path) -> Result<String> {
    let folder = root.join(FOLDER);
    let described = protox::compile([FILE], [&folder]).with_context(|| format!("{FOLDER}/{FILE} cannot be read"))?;
    let output = tempfile::tempdir().context("no temporary folder")?;
    tonic_prost_build::configure()
        .out_dir(output.path())
        .emit_rerun_if_changed(false)
        // The library makes its own connections.
        .build_transport(false)
        // The headers are sorted by name, because they are signed in this order.
        .btree_map(".")
        // Payloads are the user's secrets, so they are never printed.
        .skip_debug(["."])
        .compile_fds(described)
        .context("the code cannot be generated")?;
    fs::read_to_string(output.path().join(OUTPUT)).context("the generator wrote something else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_code_comes_out_each_time_and_prints_no_payload() {
        let code = generate(&run::root()).unwrap();
        assert_eq!(code, generate(&run::root()).unwrap());
        assert!(code.contains("pub struct Envelope") && code.contains("BTreeMap"), "{code}");
        assert!(code.contains("#[prost(skip_debug)]"), "{code}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = generate(folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains(FILE), "{error:#}");
    }
}
