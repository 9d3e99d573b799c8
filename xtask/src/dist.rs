//! `cargo xtask dist`: builds the release, in one folder and one archive.

mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run;

/// These files are included unchanged.
const FILES: [&str; 5] =
    ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "contrib/systemd/postroom.service"];
const SHELLS: [(&str, &str); 3] = [("bash", "postroom.bash"), ("zsh", "_postroom"), ("fish", "postroom.fish")];
/// Every current Linux has these libraries. Everything else is in the binary.
const LIBRARIES: [&str; 5] = ["linux-vdso", "ld-linux", "libc.so", "libm.so", "libgcc_s.so"];

pub(crate) fn run(target: Option<&str>) -> Result<()> {
    let host = host()?;
    let target = target.unwrap_or(&host);
    let binary = build(target)?;
    if target.contains("linux-gnu") {
        check_libraries(&binary)?;
    }
    let name = format!("postroom-{}-{target}", version()?);
    let folder = run::target().join("dist").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    for part in ["man", "completions"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::copy(&binary, folder.join("postroom"))?;
    for file in FILES {
        let to = folder.join(Path::new(file).file_name().context("a file has a name")?);
        fs::copy(run::root().join(file), to).with_context(|| format!("cannot copy {file}"))?;
    }
    fs::write(folder.join("postroom.cdx.json"), sbom::write(target)?)?;
    if target == host {
        print_manuals(&binary, &folder)?;
    } else {
        println!("without manual pages and completions: {target} does not run here");
    }
    archive(&folder, &name)
}

fn host() -> Result<String> {
    let told = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    told.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned).context("rustc names no host")
}

fn version() -> Result<String> {
    let told = run::cargo(["pkgid", "--package", "postroom-server"]).output().context("cannot start cargo")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    told.trim().rsplit_once(['@', '#']).map(|(_, version)| version.to_owned()).context("cargo names no version")
}

fn build(target: &str) -> Result<PathBuf> {
    let build = ["build", "--locked", "--profile", "dist", "--package", "postroom-server", "--target", target];
    let status = run::cargo(build).status().context("cannot start cargo")?;
    ensure!(status.success(), "the build failed");
    Ok(run::target().join(target).join("dist").join("postroom"))
}

fn check_libraries(binary: &Path) -> Result<()> {
    let told = Command::new("ldd").arg(binary).output().context("cannot start ldd")?;
    ensure!(told.status.success(), "ldd: {}", String::from_utf8_lossy(&told.stderr));
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let foreign: Vec<_> = told.lines().filter(|line| !LIBRARIES.iter().any(|known| line.contains(known))).collect();
    ensure!(foreign.is_empty(), "the binary needs libraries that not every system has: {foreign:?}");
    Ok(())
}

fn print_manuals(binary: &Path, folder: &Path) -> Result<()> {
    let manuals = Command::new(binary).args(["man", "--dir"]).arg(folder.join("man")).output()?;
    ensure!(manuals.status.success(), "the manual pages: {}", String::from_utf8_lossy(&manuals.stderr));
    fs::write(folder.join("postroom.toml"), output(binary, &["config", "print"])?)?;
    for (shell, file) in SHELLS {
        fs::write(folder.join("completions").join(file), output(binary, &["completions", shell])?)?;
    }
    Ok(())
}

fn output(binary: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let ran = Command::new(binary).args(args).output()?;
    ensure!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(ran.stdout)
}

fn archive(folder: &Path, name: &str) -> Result<()> {
    let beside = folder.parent().context("a folder stands somewhere")?;
    let file = format!("{name}.tar.gz");
    // The same files give the same archive.
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    let packed = Command::new("tar").current_dir(beside).args(same).arg("-czf").arg(&file).arg(name).status();
    ensure!(packed.context("cannot start tar")?.success(), "the archive failed");
    let sum = Command::new("sha256sum").current_dir(beside).arg(&file).output().context("cannot start sha256sum")?;
    ensure!(sum.status.success(), "sha256sum: {}", String::from_utf8_lossy(&sum.stderr));
    fs::write(beside.join(format!("{file}.sha256")), &sum.stdout)?;
    let bytes = fs::metadata(beside.join(&file))?.len();
    println!("{}: {:.1} MB", beside.join(file).display(), bytes as f64 / 1e6);
    Ok(())
}
