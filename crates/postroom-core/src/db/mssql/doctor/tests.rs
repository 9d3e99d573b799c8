use super::*;

/// A server on which nothing is wrong.
const FINE: [(&str, &str); 16] = [
    ("product", "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64)\n\tOct  8 2022"),
    ("database", "shop"),
    ("version", "16.0.1000.6"),
    ("edition", "2"),
    ("updateability", "READ_WRITE"),
    ("compatibility_level", "160"),
    ("delayed_durability", "DISABLED"),
    ("recovery_model", "FULL"),
    ("page_verify", "CHECKSUM"),
    ("rcsi", "1"),
    ("auto_close", "0"),
    ("oldest_transaction_seconds", "3"),
    ("tls", "TRUE"),
    ("procedures", "2"),
    ("schema.wanted", "1"),
    ("schema.found", "1"),
];

fn with(changes: &[(&str, &str)]) -> Report {
    let mut facts = Facts::from(FINE);
    changes.iter().for_each(|(name, value)| facts.add(name, value));
    report(&facts)
}

#[test]
fn a_server_as_azure_has_it_is_fine() {
    let report = with(&[]);
    assert_eq!(report.worst(), Level::Ok, "{:?}", report.findings);
    assert_eq!(report.database, "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64), database shop");
    assert!(report.findings.len() >= 11 && report.findings.iter().all(|finding| finding.advice.is_none()));
}

#[test]
fn every_setting_is_judged_by_what_it_can_lose() {
    for (change, setting, level) in [
        (("version", "12.0.6024.0"), "version", Level::Danger),
        (("updateability", "READ_ONLY"), "updateability", Level::Danger),
        (("compatibility_level", "120"), "compatibility_level", Level::Danger),
        (("delayed_durability", "FORCED"), "delayed_durability", Level::Danger),
        (("delayed_durability", "ALLOWED"), "delayed_durability", Level::Notice),
        (("page_verify", "NONE"), "page_verify", Level::Warning),
        (("recovery_model", "SIMPLE"), "recovery_model", Level::Notice),
        (("rcsi", "0"), "read_committed_snapshot", Level::Notice),
        (("auto_close", "1"), "auto_close", Level::Warning),
        (("oldest_transaction_seconds", "601"), "oldest transaction", Level::Warning),
        (("procedures", "1"), "procedures", Level::Danger),
        (("schema.found", "0"), "schema", Level::Warning),
    ] {
        let report = with(&[change]);
        let found = report.findings.iter().find(|finding| finding.setting == setting);
        assert_eq!(found.map(|finding| finding.level), Some(level), "{change:?}");
        assert_eq!(report.worst(), level, "{:?}", report.findings);
    }
}

#[test]
fn what_it_does_not_tell_is_not_judged() {
    let report = report(&Facts::from([("product", "Babelfish"), ("version", "12.0.2000.8")]));
    assert_eq!((report.worst(), report.findings.len()), (Level::Ok, 1), "{:?}", report.findings);
}
