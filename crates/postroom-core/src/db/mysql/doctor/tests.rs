use super::*;

/// A server on which nothing is wrong.
const FINE: [(&str, &str); 17] = [
    ("version", "10.11.6-MariaDB-0+deb12u1"),
    ("innodb_flush_log_at_trx_commit", "1"),
    ("log_bin", "OFF"),
    ("sync_binlog", "0"),
    ("binlog_format", "MIXED"),
    ("innodb_doublewrite", "ON"),
    ("innodb_flush_method", "O_DIRECT"),
    ("innodb_force_recovery", "0"),
    ("read_only", "OFF"),
    ("Slave_running", "OFF"),
    ("Slaves_connected", "0"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("Innodb_history_list_length", "12"),
    ("max_allowed_packet", "16777216"),
    ("engine.infra_outbox", "InnoDB"),
    ("schema.wanted", "1"),
    ("schema.found", "1"),
];

fn with(changes: &[(&str, &str)]) -> Report {
    let mut facts = Facts::from(FINE);
    changes.iter().for_each(|(name, value)| facts.add(name, value));
    report("shop", &facts)
}

#[test]
fn a_server_as_it_comes_is_fine() {
    let report = with(&[]);
    assert_eq!(report.worst(), Level::Ok, "{:?}", report.findings);
    assert_eq!(report.database, "MariaDB 10.11.6-MariaDB-0+deb12u1, database shop");
    assert!(report.findings.iter().all(|finding| finding.advice.is_none()));
}

#[test]
fn every_setting_is_judged_by_what_it_can_lose() {
    for (changes, setting, level) in [
        (&[("version", "5.7.44")][..], "version", Level::Danger),
        (&[("innodb_flush_log_at_trx_commit", "0")], "innodb_flush_log_at_trx_commit", Level::Danger),
        (&[("innodb_flush_log_at_trx_commit", "2")], "innodb_flush_log_at_trx_commit", Level::Danger),
        (&[("innodb_flush_log_at_trx_commit", "3")], "", Level::Ok),
        (&[("log_bin", "ON")], "sync_binlog", Level::Danger),
        (&[("log_bin", "ON"), ("sync_binlog", "1000")], "sync_binlog", Level::Danger),
        (&[("log_bin", "ON"), ("sync_binlog", "1")], "", Level::Ok),
        (&[("log_bin", "ON"), ("sync_binlog", "1"), ("binlog_format", "STATEMENT")], "binlog_format", Level::Danger),
        (&[("innodb_doublewrite", "OFF")], "innodb_doublewrite", Level::Danger),
        (&[("innodb_doublewrite", "DETECT_ONLY")], "innodb_doublewrite", Level::Danger),
        (&[("innodb_doublewrite", "DETECT_AND_RECOVER")], "", Level::Ok),
        (&[("innodb_flush_method", "nosync")], "innodb_flush_method", Level::Danger),
        (&[("innodb_force_recovery", "3")], "innodb_force_recovery", Level::Danger),
        (&[("read_only", "ON")], "read_only", Level::Danger),
        (&[("super_read_only", "ON")], "super_read_only", Level::Danger),
        (&[("wsrep_on", "OFF")], "", Level::Ok),
        (&[("wsrep_on", "ON"), ("wsrep_cluster_size", "3")], "wsrep_on", Level::Warning),
        (&[("slave_running", "ON")], "replication", Level::Warning),
        (&[("slaves_connected", "2")], "replication", Level::Notice),
        (&[("tx_isolation", "SERIALIZABLE")], "", Level::Ok),
        (&[("innodb_history_list_length", "1000001")], "history list length", Level::Warning),
        (&[("max_allowed_packet", "4194304")], "max_allowed_packet", Level::Notice),
        (&[("max_allowed_packet", "1048576")], "max_allowed_packet", Level::Warning),
        (&[("engine.infra_inbox", "MyISAM")], "storage engine of infra_inbox", Level::Danger),
    ] {
        let report = with(changes);
        let found: Vec<_> = report.at_least(Level::Notice).collect();
        assert_eq!(report.worst(), level, "{changes:?}: {found:?}");
        if level > Level::Ok {
            assert_eq!(found.iter().map(|finding| finding.setting.as_str()).collect::<Vec<_>>(), [setting]);
            assert!(found[0].advice.as_ref().is_some_and(|advice| !advice.is_empty()), "{found:?}");
        }
    }
}

#[test]
fn what_is_not_known_is_not_guessed() {
    assert!(report("shop", &Facts::default()).findings.is_empty());
}
