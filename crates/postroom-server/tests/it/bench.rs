//! `postroom bench`.

use crate::desk::Desk;

#[test]
fn it_measures_in_a_file_of_its_own_and_leaves_nothing_behind() {
    let desk = Desk::new();
    desk.ok(&["send", "mine"]);
    let told = desk.json(&["bench", "--duration", "400ms", "--callers", "4", "--payload", "1000"]);
    assert_eq!((&told["callers"], &told["payload_bytes"]), (&4.into(), &1000.into()));
    let rows = told["measured"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    let expected =
        ["enqueue, one caller", "enqueue, 4 callers", "claim, handle, acknowledge", "from enqueue to handler"];
    assert_eq!(names, expected);
    assert!(rows.iter().all(|row| row["messages"].as_u64() > Some(0)), "{told}");
    assert!(rows[..3].iter().all(|row| row["per_second"].as_f64() > Some(0.0)), "{told}");
    assert!([0, 1, 3].iter().all(|row| rows[*row]["p50_ms"].as_f64() <= rows[*row]["p99_ms"].as_f64()), "{told}");
    let left: Vec<_> = std::fs::read_dir(desk.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["postroom.db"]);
    assert_eq!(desk.outbox("total"), 1);
    let printed = desk.ok(&["bench", "--duration", "200ms", "--callers", "2"]);
    assert!(printed.contains("per second") && printed.contains("× one caller"), "{printed}");
}

#[test]
fn what_cannot_be_measured_says_why() {
    let desk = Desk::new();
    for (args, said) in [
        (&["bench", "--duration", "1h"][..], "from 100ms to 10m"),
        (&["bench", "--callers", "1"], "2..=1000"),
        (&["bench", "--payload", "0"], "2..="),
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
    let ran = desk.run(&["bench", "--db", "nowhere/shop.db"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("cannot write to") && ran.stderr.contains("try:"), "{ran:?}");
}
