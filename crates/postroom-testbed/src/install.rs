//! Installs a missing server where the machine permits it: as root, with apt. It starts nothing.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::engine::Engine;

/// This setting prevents that installing PostgreSQL creates a database, and thereby starts a service.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.conf";
const NO_CLUSTER: &str = "\ncreate_main_cluster = false\n";

/// A package may start a service. This file tells it not to, and is written only if there is none.
const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";
const NO_SERVICE: &str = "#!/bin/sh\nexit 101\n";

pub(crate) fn packages_of(engine: Engine) -> Result<()> {
    check_rights()?;
    match engine {
        Engine::Postgres => {
            install(&["postgresql-common"])?;
            let settings = fs::read_to_string(CLUSTER_SETTINGS).unwrap_or_default();
            fs::write(CLUSTER_SETTINGS, settings + NO_CLUSTER)
                .with_context(|| format!("cannot write {CLUSTER_SETTINGS}"))?;
            install(&["postgresql"])
        }
        // These packages contain only programs and no service.
        Engine::MariaDb => install(&["mariadb-server-core", "mariadb-client-core"]),
    }
}

/// Installs packages that come with a service, and keeps the service off.
pub(crate) fn without_service(packages: &[&str]) -> Result<()> {
    check_rights()?;
    let is_ours = !Path::new(SERVICE_POLICY).exists();
    if is_ours {
        fs::write(SERVICE_POLICY, NO_SERVICE).with_context(|| format!("cannot write {SERVICE_POLICY}"))?;
        fs::set_permissions(SERVICE_POLICY, Permissions::from_mode(0o755))?;
    }
    let installed = install(packages);
    if is_ours {
        fs::remove_file(SERVICE_POLICY)?;
    }
    installed
}

/// Installs a program that has no service.
pub fn install_package(name: &str) -> Result<()> {
    check_rights()?;
    install(&[name])
}

fn check_rights() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "only root can install it");
    let path = env::var_os("PATH").unwrap_or_default();
    ensure!(
        env::split_paths(&path).any(|folder| folder.join("apt-get").is_file()),
        "there is no apt-get to install it"
    );
    Ok(())
}

/// Installs packages. A fresh machine has no package list yet, and the list of an old one may be outdated.
fn install(packages: &[&str]) -> Result<()> {
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(packages);
    if apt(&args).is_ok() {
        return Ok(());
    }
    apt(&["update"])?;
    apt(&args)
}

fn apt(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["--quiet=2", "-o", "DPkg::Lock::Timeout=300"]).args(args);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let output = command.output().context("cannot start apt-get")?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("apt-get {} failed: {}", args.join(" "), complaint.lines().last().unwrap_or("it does not say why"));
    }
    Ok(())
}
