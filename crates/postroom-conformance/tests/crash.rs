//! The crash test at the size the test command can afford, and the proof that it would notice.

use std::path::PathBuf;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use postroom::testing::Sabotage;
use postroom_conformance::servers;
use postroom_conformance::torture::{self, Database, Options, Report, Scenario};

/// Each spends half of its time waiting for leases to run out, and needs the machine for the rest.
const AT_ONCE: usize = 2;

fn main() {
    let sqlite = [
        trial("nothing_is_lost_or_doubled_through_50_kills_and_20_pauses", Database::Sqlite, || {
            passes(&options(Database::Sqlite, 50, 20, 5_000))
        }),
        trial("without_fencing_the_crash_test_fails", Database::Sqlite, || {
            let report = run(&sabotaged(Sabotage::Fencing))?;
            holds(report.stale_settles_applied > 0 || report.doubled > 0, &report)
        }),
        trial("with_the_ack_outside_the_handlers_transaction_the_crash_test_fails", Database::Sqlite, || {
            let report = run(&sabotaged(Sabotage::AckOutside))?;
            holds(report.doubled > 0, &report)
        }),
    ];
    let services = [(Database::Sqlite, 24, 4_000), (Database::Postgres, 12, 1_500), (Database::Mssql, 12, 1_500)].map(
        |(database, kills, messages)| {
            let name = format!("nothing_is_lost_or_doubled_between_two_services_on_{}", database.name());
            trial(&name, database, move || passes(&Options { services: true, ..options(database, kills, 0, messages) }))
        },
    );
    let rows = Scenario::ALL.map(|scenario| {
        trial(scenario.promise(), Database::Sqlite, move || {
            let options = options(Database::Sqlite, scenario.kills(), 0, 400);
            passes(&Options { services: true, scenario: Some(scenario), ..options })
        })
    });
    let servers = [Database::Postgres, Database::Mariadb].map(|database| {
        let name = format!("nothing_is_lost_or_doubled_when_{}_is_killed", database.name());
        trial(&name, database, move || {
            let blows = Options { server_kills: 4, storms: 3, cuts: 4, ..options(database, 6, 4, 1_500) };
            passes(&blows)
        })
    });
    let lanes = [Database::Sqlite, Database::Postgres, Database::Mariadb].map(|database| {
        let name = format!("lanes_keep_their_order_on_{}_when_everybody_is_killed", database.name());
        trial(&name, database, move || passes(&Options { lanes: 40, cuts: 2, ..options(database, 8, 3, 600) }))
    });
    // Its server is not ours to kill.
    let mssql = trial("nothing_is_lost_or_doubled_on_mssql", Database::Mssql, || {
        passes(&Options { storms: 2, cuts: 3, ..options(Database::Mssql, 6, 3, 300) })
    });
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    libtest_mimic::run(
        &arguments,
        sqlite.into_iter().chain(services).chain(rows).chain(servers).chain(lanes).chain([mssql]).collect(),
    )
    .exit();
}

fn trial(name: &str, database: Database, test: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(Err(refusal)) = database.engine().map(|engine| engine.check_installed()) {
            return Ok(Completion::ignored_with(format!("skipped: {refusal:#}")));
        }
        if let Some(why) = servers::why_not(database.name()).filter(|_| database == Database::Mssql) {
            return Ok(Completion::ignored_with(why));
        }
        test().map(|()| Completion::Completed)
    })
}

fn options(database: Database, kills: u32, pauses: u32, messages: u64) -> Options {
    Options {
        executable: PathBuf::from(env!("CARGO_BIN_EXE_postroom-torture")),
        database,
        kills,
        messages,
        lanes: 0,
        pauses,
        services: false,
        scenario: None,
        server_kills: 0,
        storms: 0,
        cuts: 0,
        seed: fastrand::u64(..),
        sabotage: None,
        dir: None,
        keep: false,
    }
}

fn sabotaged(sabotage: Sabotage) -> Options {
    Options { sabotage: Some(sabotage), ..options(Database::Sqlite, 15, 6, 1_500) }
}

fn run(options: &Options) -> Result<Report, Failed> {
    let report = torture::run(options).map_err(|error| format!("seed {}: {error:#}", options.seed))?;
    println!("{report}");
    Ok(report)
}

fn passes(options: &Options) -> Result<(), Failed> {
    let report = run(options)?;
    holds(report.failures().is_empty(), &report)
}

fn holds(condition: bool, report: &Report) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(report.to_string().into()) }
}
