//! One named test for each case on each backend.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use postroom_conformance::capture::{self, Logs};
use postroom_conformance::case::{Case, Run, Running, Setup};
use postroom_conformance::{meters, servers, suite, wait};

// POSTROOM_RESULTS names a file for the results, POSTROOM_SEED sets the random sequences, POSTROOM_SCALE makes the
// large cases that many times larger, and with POSTROOM_LOGS set a case that fails shows its log lines.

/// A case that takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The areas that are also tested where each transaction may run on another connection. Each must have cases.
const THROUGH_A_POOLER: &[&str] = &[
    "enqueue::",
    "claim::",
    "settle::",
    "extend::",
    "reap::",
    "arrive::",
    "work::",
    "effects::",
    "contention::",
    "idempotent::",
];

fn main() {
    if let Some(ended) = suite::run_as_child() {
        std::process::exit(ended);
    }
    note_where_panics_happen();
    let _ = tracing::subscriber::set_global_default(capture::Router);
    let _ = metrics::set_global_recorder(meters::Router);
    // Metrics find their case by the name of its store.
    postroom::telemetry::name_stores_in_metrics(usize::MAX);
    println!("{}={}", suite::SEED_VARIABLE, suite::seed());
    let cases = suite::cases();
    let trials = cases.iter().flat_map(|case| case.on.iter().map(|&(backend, run)| trial(case, backend, run)));
    if let Some(area) = THROUGH_A_POOLER.iter().find(|area| !cases.iter().any(|case| case.name.starts_with(**area))) {
        eprintln!("THROUGH_A_POOLER names {area}, but no case has that prefix");
        std::process::exit(1);
    }
    let pooled = cases.iter().filter(|case| THROUGH_A_POOLER.iter().any(|area| case.name.starts_with(area)));
    let pooled =
        pooled.filter_map(|case| case.on.iter().find(|(backend, _)| *backend == "postgres").map(|on| (case, on)));
    let pooled = pooled.map(|(case, (_, run))| trial(case, servers::PGBOUNCER, *run));
    let mut arguments = Arguments::from_args();
    // Cases wait for servers and disks, not only for the processors.
    arguments.test_threads.get_or_insert_with(|| 2 * std::thread::available_parallelism().map_or(1, usize::from));
    libtest_mimic::run(&arguments, trials.chain(pooled).collect()).exit();
}

fn trial(case: &Case, backend: &'static str, run: Run) -> Trial {
    let (case, test) = (*case, format!("{backend}::{}", case.name));
    let why = servers::why_not(backend);
    // Without its server a case cannot run; it is listed as ignored.
    Trial::ignorable_test(test.clone(), move || {
        if let Some(why) = why {
            return Ok(Completion::ignored_with(why));
        }
        let result = on_its_own_runtime(run, backend == servers::PGBOUNCER);
        tell(&test, backend, &case, if result.is_ok() { "passed" } else { "failed" });
        result.map(|()| Completion::Completed)
    })
}

/// Runs a case in its own runtime, so that its log lines and metrics are separate from those of other cases.
fn on_its_own_runtime(run: fn(Setup) -> Running, pooled: bool) -> Result<(), Failed> {
    let setup = Setup { pooled, ..Setup::default() };
    let (logs, meters) = (setup.logs.clone(), setup.meters.clone());
    let wants_logs = std::env::var_os("POSTROOM_LOGS").is_some();
    if wants_logs {
        logs.listen();
    }
    let told = logs.clone();
    let recorder: &'static meters::Catcher = Box::leak(Box::new(meters::Catcher(meters)));
    let dispatch = dispatch(logs);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || {
            // These threads belong to this case until they end.
            std::mem::forget(tracing::dispatcher::set_default(&dispatch));
            std::mem::forget(metrics::set_default_local_recorder(recorder));
        })
        .build()
        .map_err(|error| Failed::from(format!("no runtime: {error}")))?;
    let (report, verdict) = mpsc::channel();
    drop(runtime.spawn(async move {
        let verdict = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(run(setup))).await;
        report.send(verdict.map_err(|panic| panic_text(panic.as_ref()))).ok();
    }));
    let verdict = verdict.recv_timeout(WATCHDOG * wait::scale());
    runtime.shutdown_background();
    if wants_logs && !matches!(verdict, Ok(Ok(Ok(())))) {
        told.lines().iter().for_each(|line| eprintln!("{} {} {:?}", line.level, line.message, line.fields));
    }
    match verdict {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(format!("{error:#}").into()),
        Ok(Err(panic)) => Err(panic.into()),
        Err(RecvTimeoutError::Timeout) => Err(format!("it hangs: no verdict after {WATCHDOG:?}").into()),
        Err(RecvTimeoutError::Disconnected) => Err("it ended without a verdict".into()),
    }
}

fn dispatch(logs: std::sync::Arc<Logs>) -> tracing::Dispatch {
    tracing::Dispatch::new(capture::Catcher(logs))
}

thread_local! {
    /// Where this thread panicked last.
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Handlers of some cases panic on purpose: only the place is kept, for a case that fails by it.
fn note_where_panics_happen() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!("{}:{}: ", place.file(), place.line()));
        PANICKED_AT.with(|at| *at.borrow_mut() = place.unwrap_or_default());
    }));
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned());
    PANICKED_AT.with(|at| format!("{}{text}", at.borrow()))
}

/// Appends one line of JSON to the file that `POSTROOM_RESULTS` names.
fn tell(test: &str, backend: &str, case: &Case, outcome: &str) {
    static RESULTS: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let open = || {
        let path = std::env::var_os("POSTROOM_RESULTS")?;
        let file = File::options().create(true).append(true).open(&path);
        Some(Mutex::new(file.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()))))
    };
    if let Some(file) = RESULTS.get_or_init(open) {
        let line = serde_json::json!({"test": test, "backend": backend, "proves": case.proves, "outcome": outcome});
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{line}").unwrap_or_else(|error| panic!("cannot write the results: {error}"));
    }
}
