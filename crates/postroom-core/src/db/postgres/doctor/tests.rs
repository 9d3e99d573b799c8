use super::*;

/// A server on which nothing is wrong.
const FINE: [(&str, &str); 16] = [
    ("server_version", "15.6"),
    ("server_version_num", "150006"),
    ("standby", "false"),
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("synchronous_standby_names", ""),
    ("replicas", "0"),
    ("autovacuum", "on"),
    ("oldest_transaction_seconds", "3"),
    ("oldest_snapshot_age", "7"),
    ("outbox.dead_rows", "10"),
    ("outbox.live_rows", "0"),
    ("outbox.persistence", "p"),
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
    assert_eq!(report.database, "PostgreSQL 15.6, database shop");
    assert!(report.findings.iter().all(|finding| finding.advice.is_none()));
}

#[test]
fn every_setting_is_judged_by_what_it_can_lose() {
    for (changes, setting, level) in [
        (&[("server_version_num", "110021")][..], "server_version", Level::Danger),
        (&[("standby", "true")], "standby", Level::Danger),
        (&[("fsync", "off")], "fsync", Level::Danger),
        (&[("full_page_writes", "off")], "full_page_writes", Level::Danger),
        (&[("synchronous_commit", "off")], "synchronous_commit", Level::Warning),
        (&[("synchronous_commit", "local")], "", Level::Ok),
        (&[("synchronous_commit", "remote_apply")], "", Level::Ok),
        (
            &[("synchronous_commit", "local"), ("synchronous_standby_names", "a"), ("replicas", "1")],
            "synchronous_commit",
            Level::Notice,
        ),
        (&[("replicas", "2")], "synchronous_standby_names", Level::Notice),
        (&[("synchronous_standby_names", "a")], "synchronous_standby_names", Level::Warning),
        (&[("synchronous_standby_names", "a"), ("replicas", "1")], "", Level::Ok),
        (&[("override.app", "off")], "synchronous_commit of app", Level::Warning),
        (&[("override.app", "on")], "", Level::Ok),
        (&[("autovacuum", "off")], "autovacuum", Level::Warning),
        (&[("default_transaction_isolation", "read committed")], "", Level::Ok),
        (&[("default_transaction_isolation", "serializable")], "default_transaction_isolation", Level::Notice),
        (&[("backend_age_micros", "5"), ("our.age_micros", "9"), ("our.pooler", "false")], "", Level::Ok),
        (&[("backend_age_micros", "9"), ("our.age_micros", "5"), ("our.pooler", "true")], "", Level::Ok),
        (&[("backend_age_micros", "9"), ("our.age_micros", "5"), ("our.pooler", "false")], "pooler", Level::Warning),
        (&[("oldest_transaction_seconds", "60")], "oldest transaction", Level::Notice),
        (&[("oldest_transaction_seconds", "3600")], "oldest transaction", Level::Warning),
        (&[("oldest_prepared_seconds", "3600")], "oldest transaction", Level::Warning),
        (&[("oldest_snapshot_age", "1000001")], "oldest snapshot", Level::Warning),
        (&[("outbox.dead_rows", "100001")], "outbox dead rows", Level::Warning),
        (&[("outbox.dead_rows", "100001"), ("outbox.live_rows", "100002")], "", Level::Ok),
        (&[("outbox.persistence", "u")], "outbox table", Level::Danger),
        (&[("outbox.autovacuum", "false")], "outbox autovacuum", Level::Warning),
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
fn what_may_not_be_seen_is_told_and_not_guessed() {
    let mut facts = Facts::default();
    facts.add("sees_others", "false");
    assert_eq!(old_transactions(&facts).unwrap().level, Level::Notice);
    facts.add("sees_others", "true");
    assert_eq!(old_transactions(&facts).unwrap().level, Level::Ok);
    assert!(report("shop", &Facts::default()).findings.is_empty());
}
