//! The configuration: errors, their texts, and which setting overrides which.

use crate::desk::Desk;

/// The messages of `config check` for a file.
fn said(text: &str) -> Vec<String> {
    let desk = Desk::new();
    desk.write("postroom.toml", text);
    let ran = desk.run(&["config", "check"]);
    assert_eq!(ran.code, Some(1), "{text}: {ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("try: `postroom config print`"), "{ran:?}");
    assert!(!desk.path("postroom.db").exists(), "nothing is started");
    let lines = ran.stderr.lines().map(|line| line.strip_prefix("error: ").unwrap_or(line).to_owned());
    lines.filter(|line| line.starts_with("postroom.toml")).collect()
}

const TOKEN: &str =
    "[tokens.orders]\ndigests = [\"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"]\n";
const KEY: &str = r#"keys = { a = { env = "PATH" } }"#;

#[test]
fn a_mistake_is_told_with_its_line_and_what_was_meant() {
    for (text, wanted) in [
        (
            "[worker]\n\nconcurency = 8",
            "postroom.toml:3: unknown key `concurency` in [worker]; did you mean `concurrency`?",
        ),
        (
            "[admin]\ncolour = \"red\"",
            "postroom.toml:2: unknown key `colour` in [admin]; its keys are `listen`, `tls_cert`, `tls_key`, \
             `client_ca`, `hosts`",
        ),
        (
            "[handlers.a]\nurl = \"http://10.0.0.7:8080/\"",
            "postroom.toml:2: `url` in [handlers.a]: messages would travel unencrypted; write https://, or set \
             `allow_unencrypted` to true",
        ),
        (
            "[hooks.a]\nscheme = \"stripe\"\nsecret = { env = \"PATH\" }\ncloud_events = true",
            "postroom.toml:4: `cloud_events` in [hooks.a] needs the scheme \"standard-webhooks\", because other \
             schemes do not sign the id of an event",
        ),
        (
            "[hooks.a]\nscheme = \"stripe\"\nsecret = { env = \"PATH\" }\ntopics = [\"a*b\"]",
            "postroom.toml:4: `topics` in [hooks.a] must be names of topics, like \"order.placed\", or \"order.*\" for \
             every topic that starts with \"order.\"",
        ),
        ("[wroker]\nbatch = 1", "postroom.toml:1: unknown section [wroker]; did you mean [worker]?"),
        ("[worker]\nbatch = 0", "postroom.toml:2: `batch` in [worker] must be from 1 to 10000, not 0"),
        ("[worker]\nbatch = -5", "postroom.toml:2: `batch` in [worker] must be from 1 to 10000, not -5"),
        ("[worker]\nbatch = \"many\"", "postroom.toml:2: `batch` in [worker] must be a whole number, not text"),
        ("[worker]\nlease = \"25h\"", "postroom.toml:2: `lease` in [worker]: it must be from 1ms to 1d, not 25h"),
        (
            "[worker]\nlease = 30",
            "postroom.toml:2: `lease` in [worker] must be a duration in quotes, like \"10s\", not a whole number",
        ),
        (
            "[worker]\nlease = \"30\"",
            "postroom.toml:2: `lease` in [worker]: \"30\" is not a duration; write a whole number and ms, s, m, h or \
             d, like 10s",
        ),
        (
            "[worker]\npoll = \"10s\"\npoll_max = \"1s\"",
            "postroom.toml:3: `poll_max` in [worker] must not be shorter than `poll`",
        ),
        ("[receiver]\nqueued = 1", "postroom.toml:2: `queued` in [receiver] must be true or false, not a whole number"),
        (
            "[receiver]\nlisten = \"https://0.0.0.0:7410\"",
            "postroom.toml:2: `listen` in [receiver]: https:// needs `tls_cert` and `tls_key`",
        ),
        (
            "[retention]\ninbox = \"1d\"",
            "postroom.toml:2: [retention] keeps inbox messages for 1d, but the dedupe window is 29d: a duplicate could \
             be handled again; keep messages for at least ten minutes longer than the window",
        ),
        (
            "[retention]\ninbox = \"60d\"\ndismissed = \"2d\"",
            "postroom.toml:3: [retention] keeps inbox messages for 2d, but the dedupe window is 29d: a duplicate could \
             be handled again; keep messages for at least ten minutes longer than the window",
        ),
        ("[retention]\ndead = \"0s\"", "postroom.toml:2: `dead` in [retention]: it must be from 1m to 36500d, not 0s"),
    ] {
        assert_eq!(said(text), [wanted], "{text}");
    }
}

#[test]
fn names_addresses_and_secrets_are_checked_too() {
    for (text, wanted) in [
        (
            "[node]\nname = \"My Shop\"",
            "postroom.toml:2: `name` in [node] must be 1 to 64 characters from a-z, 0-9, `.`, `_` and `-`, and start \
             with a letter or digit",
        ),
        (
            "[admin]\nlisten = \"0.0.0.0:7411\"",
            "postroom.toml:2: `listen` in [admin]: an address that other machines can reach needs `tls_cert` and \
             `tls_key`, `hosts`, and a section [tokens.NAME]; or write 127.0.0.1:7411",
        ),
        (
            "[handlers.a]\ntimeout = \"1s\"",
            "postroom.toml:1: [handlers.a] needs a `url`, like \"http://127.0.0.1:8080/messages\"",
        ),
        (
            "[handlers.\"a.b\"]\nurl = \"ftp://127.0.0.1/\"",
            "postroom.toml:2: `url` in [handlers.\"a.b\"] must be http://host:port/path or \
             https://host:port/path, without a user or password",
        ),
        (
            "[sources.orders]\n",
            "postroom.toml:1: [sources.orders] needs a key, like keys = { \"2026-11\" = { env = \"VARIABLE\" } }",
        ),
        (
            "[sources.orders]\nkeys = { a = { env = \"A\", file = \"b\" } }",
            "postroom.toml:2: the key `a` in [sources.orders] needs either { env = \"VARIABLE\" } or \
             { file = \"PATH\" }",
        ),
        (
            "[sources.orders]\nkeys = { a = { env = \"NO_SUCH_VARIABLE\" } }",
            "postroom.toml:2: the key `a` in [sources.orders]: no secret: the variable NO_SUCH_VARIABLE is not set; \
             set it where this program starts",
        ),
    ] {
        assert_eq!(said(text), [wanted], "{text}");
    }
}

#[test]
fn tokens_are_checked() {
    let with = |keys: &str| format!("{TOKEN}{keys}");
    for (text, wanted) in [
        (
            "[tokens.orders]\nmay = [\"read\"]".to_owned(),
            "postroom.toml:1: [tokens.orders] needs `digests`, the SHA-256 digests of its token; `postroom token NAME` \
             creates a token and prints this section",
        ),
        (
            "[tokens.orders]\ndigests = [\"secret\"]\nmay = [\"read\"]".to_owned(),
            "postroom.toml:2: `digests` in [tokens.orders]: a digest must be 64 hexadecimal digits; compute it \
             with `printf %s \"$TOKEN\" | sha256sum`",
        ),
        (
            with("may = [\"write\"]"),
            "postroom.toml:3: `may` in [tokens.orders]: unknown scope \"write\"; write enqueue, pull, \
             pull:TOPIC, read, payload or operate",
        ),
        (
            with("may = [\"read\"]\nexpires = \"soon\""),
            "postroom.toml:4: `expires` in [tokens.orders] must be a day like \"2027-06-30\", or a time like \
             \"2027-06-30T18:00:00Z\"",
        ),
    ] {
        assert_eq!(said(&text), [wanted], "{text}");
    }
}

#[test]
fn a_service_beyond_this_machine_is_spoken_to_by_tls() {
    let text = format!("[services.billing]\nurl = \"http://10.0.0.1:7410\"\n{KEY}");
    let wanted = "postroom.toml:2: `url` in [services.billing]: messages would travel unencrypted; write https://, or \
                  set `allow_unencrypted` to true";
    assert_eq!(said(&text), [wanted]);
}

#[test]
fn all_mistakes_are_told_at_once_and_in_order() {
    let lines = said("[worker]\nbatch = 0\nleas = \"1s\"\n[store]\nurl = \"oracle://a/b\"\n[handlers.x]\n");
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (line, beginning) in
        lines.iter().zip(["postroom.toml:2:", "postroom.toml:3:", "postroom.toml:5:", "postroom.toml:6:"])
    {
        assert!(line.starts_with(beginning), "{lines:?}");
    }
    let broken = said("[worker\nbatch = 1\n[node]\nname = \n");
    assert!(broken.iter().all(|line| line.contains("invalid TOML")) && !broken.is_empty(), "{broken:?}");
}

#[test]
fn a_secret_in_the_file_is_refused_and_never_shown() {
    for text in [
        "[sources.orders]\nkeys = { a = \"hunter2\" }",
        "[services.orders]\nurl = \"http://127.0.0.1:1\"\nkeys = { a = \"hunter2\" }",
        "[handlers.a]\nurl = \"http://127.0.0.1:1\"\nsecret = \"whsec_hunter2\"",
        "[handlers.a]\nurl = \"http://me:hunter2@127.0.0.1:1\"",
        "[store]\nurl = \"postgres://app:hunter2@db/shop\"",
        "[services.orders]\nurl = \"http://me:hunter2@127.0.0.1:1\"\nkeys = { a = { env = \"PATH\" } }",
        "[store]\nurl = \"postgres://app:hunter2",
    ] {
        let lines = said(text);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(!lines[0].contains("hunter2"), "{lines:?}");
    }
    let lines = said("[handlers.a]\nurl = \"http://127.0.0.1:1\"\nsecret = \"whsec_hunter2\"");
    assert_eq!(
        lines,
        ["postroom.toml:3: `secret` in [handlers.a] is a secret and must not be in this file; write { env = \
          \"VARIABLE\" } or { file = \"PATH\" }, and replace the secret, because others may have read it here"]
    );
}

#[test]
fn the_environment_goes_before_the_file_and_its_mistakes_are_told_too() {
    let desk = Desk::new();
    desk.write("postroom.toml", "[worker]\nconcurrency = 3\n");
    let check = |environment: &[(&str, &str)]| desk.run_in(environment, &["config", "check"]);
    assert!(check(&[]).stdout.contains("handles up to 3 messages"));
    assert!(check(&[("POSTROOM_WORKER_CONCURRENCY", "8")]).stdout.contains("handles up to 8 messages"));
    for (name, value, wanted) in [
        ("POSTROOM_WORKER_CONCURRENCY", "0", "`concurrency` in [worker] must be from 1 to 10000, not 0"),
        ("POSTROOM_WORKER_CONCURRENCY", "some", "`concurrency` in [worker] must be a whole number"),
        ("POSTROOM_WORKER_CONCURENCY", "8", "this variable sets no key; did you mean `POSTROOM_WORKER_CONCURRENCY`?"),
    ] {
        let ran = check(&[(name, value)]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {name}: {wanted}")), "{ran:?}");
    }
    let store = check(&[("POSTROOM_STORE_URL", "postgres://app:hunter2@db/shop")]);
    assert!(store.stdout.contains("postgres://app:***@db/shop"), "{store:?}");
}

#[test]
fn what_is_printed_is_a_file_that_is_good() {
    let desk = Desk::new();
    let printed = desk.ok(&["config", "print"]);
    desk.write("other.toml", &printed);
    assert!(desk.ok(&["config", "check", "other.toml"]).starts_with("other.toml: valid"));
    assert!(desk.ok(&["config", "check", "--config", "other.toml"]).starts_with("other.toml: valid"));
    let ran = desk.run_in(&[("POSTROOM_CONFIG", "other.toml")], &["config", "check"]);
    assert!(ran.stdout.starts_with("other.toml: valid"), "{ran:?}");
    assert!(desk.ok(&["config", "check"]).starts_with("no file, only the defaults: valid"));
    let missing = desk.run(&["up", "--config", "none.toml"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("there is no configuration at none.toml"), "{missing:?}");
}

#[test]
fn every_command_finds_the_database_of_the_configuration() {
    let desk = Desk::new();
    desk.write("postroom.toml", "[store]\nurl = \"shop.db\"\n");
    desk.ok(&["send", "a"]);
    assert_eq!(desk.outbox("ready"), 1);
    assert!(desk.path("shop.db").exists() && !desk.path("postroom.db").exists());
    desk.ok(&["send", "a", "--db", "other.db"]);
    assert_eq!(desk.outbox("ready"), 1);
}

/// Each file in `wrong` has its message next to it: what is wrong, where, and what to write instead.
#[test]
fn every_wrong_file_gets_the_message_that_stands_beside_it() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/wrong");
    let desk = Desk::new();
    desk.write("open.key", "0123456789012345678901234567890123456789");
    std::fs::set_permissions(desk.path("open.key"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut checked = 0;
    for file in std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_none_or(|kind| kind != "toml") {
            continue;
        }
        desk.write("postroom.toml", &std::fs::read_to_string(&file).unwrap());
        let ran = desk.run(&["config", "check"]);
        assert_eq!(ran.code, Some(1), "{}: {ran:?}", file.display());
        let wanted = std::fs::read_to_string(file.with_extension("txt")).unwrap();
        assert_eq!(ran.stderr, wanted, "{}", file.display());
        checked += 1;
    }
    assert!(checked >= 20, "{checked} files");
}
