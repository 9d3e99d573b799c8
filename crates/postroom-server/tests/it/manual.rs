//! Completions, manual pages and help texts.

use crate::desk::Desk;

#[test]
fn shells_learn_the_commands() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = desk.ok(&["completions", shell]);
        assert!(script.contains("postroom") && script.contains("redrive") && script.contains("dry-run"), "{shell}");
    }
    assert_eq!(desk.json(&["completions", "bash"])["shell"], "bash");
    let script = desk.ok(&["completions", "bash"]);
    let ran = std::process::Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let ran = desk.run(&["completions", "cmd"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("bash"), "{ran:?}");
}

#[test]
fn every_command_has_a_page() {
    let desk = Desk::new();
    let page = desk.ok(&["man"]);
    assert!(page.contains(".TH postroom") && page.contains("explain") && page.contains("Exit codes"), "{page}");
    assert!(desk.ok(&["man", "restore"]).contains("redrive"));
    std::fs::create_dir(desk.path("pages")).unwrap();
    desk.ok(&["man", "--dir", "pages"]);
    for name in ["postroom.1", "postroom-send.1", "postroom-explain.1"] {
        assert!(desk.path("pages").join(name).is_file(), "{name}");
    }
    for args in [&["man", "nonsense"][..], &["man", "--dir", "nowhere"]] {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stdout.is_empty() && ran.stderr.contains("try:"), "{ran:?}");
    }
}
