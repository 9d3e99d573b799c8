//! The account that a server runs as.

use std::fs;

use anyhow::{Context, Result};

/// An account of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Returns the first of these accounts that exists, or `None` if we are not root and run servers as ourselves.
pub(crate) fn instead_of_root(names: &[&str]) -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let account = names.iter().find_map(|name| parse(&accounts, name));
    account.map(Some).with_context(|| format!("no account to run the server as: none of {}", names.join(", ")))
}

fn parse(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    let uid = numbers.next()?.parse().ok()?;
    let gid = numbers.next()?.parse().ok()?;
    Some(Account { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(parse(accounts, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(parse(accounts, "mysql"), None);
    }
}
