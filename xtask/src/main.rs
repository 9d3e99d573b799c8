//! Postroom's own automation. `cargo xtask` lists the commands.

mod callgrind;
mod ci;
mod dist;
mod fuzz;
mod proto;
mod run;
mod servers;
mod spec;
mod test;
mod tidy;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

/// Postroom's own automation
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Build and run all tests, and count them
    Test {
        /// Test only this package
        #[arg(long, value_name = "PACKAGE")]
        only: Option<String>,
        /// Run only the tests whose names contain one of these
        #[arg(last = true, value_name = "FILTER")]
        filters: Vec<String>,
    },
    /// Check format, lints, style, features, documentation and dependencies
    Ci,
    /// Check the style rules that the compiler does not check
    Tidy {
        /// Also write the order and size of the sources to this file, as JSON
        #[arg(long, value_name = "PATH")]
        json: Option<PathBuf>,
    },
    /// List every requirement with the tests and backends that prove it
    Spec {
        /// Also write the list to this file, as JSON
        #[arg(long, value_name = "PATH")]
        json: Option<PathBuf>,
        /// Read these results instead of running the conformance tests
        #[arg(long, value_name = "PATH")]
        results: Option<PathBuf>,
    },
    /// Regenerate the gRPC code of the library from its .proto file
    Proto {
        /// Only check that the committed code is up to date
        #[arg(long)]
        check: bool,
    },
    /// Look for inputs that break a promise of the wire; without a name, list the fuzzers
    Fuzz {
        /// The name of a fuzzer, or all
        target: Option<String>,
        /// How long each fuzzer runs
        #[arg(long, default_value_t = 600)]
        seconds: u32,
    },
    /// Count the instructions of macro-generated code, and of the same code by hand
    Callgrind,
    /// Build the release: binary, bill of materials, manual pages, completions and the unit for systemd
    Dist {
        /// Build for this target; its standard library must be installed
        #[arg(long, value_name = "TRIPLE")]
        target: Option<String>,
    },
    /// Run database servers and message brokers to test against, and print how to reach them
    Servers {
        /// Make each commit wait for the disk
        #[arg(long)]
        durable: bool,
    },
    /// Kill and pause real processes, and look for lost or duplicated messages
    #[command(disable_help_flag = true)]
    Torture {
        /// Passed on to postroom-torture
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Compare the speed with plain SQL in the same run
    #[command(disable_help_flag = true)]
    Bench {
        /// Passed on to postroom-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    dispatch(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    let Some(command) = cli.command else {
        Cli::command().print_help()?;
        return Ok(ExitCode::SUCCESS);
    };
    match command {
        Command::Test { only, filters } => test::run(only.as_deref(), &filters),
        Command::Ci => ci::run().map(|()| ExitCode::SUCCESS),
        Command::Tidy { json } => tidy::run(json.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Spec { json, results } => spec::run(json.as_deref(), results.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Proto { check: true } => proto::check().map(|()| ExitCode::SUCCESS),
        Command::Proto { check: false } => proto::write().map(|()| ExitCode::SUCCESS),
        Command::Fuzz { target, seconds } => fuzz::run(target.as_deref(), seconds),
        Command::Callgrind => callgrind::run().map(|()| ExitCode::SUCCESS),
        Command::Dist { target } => dist::run(target.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Servers { durable } => servers::run(durable).map(|()| ExitCode::SUCCESS),
        Command::Torture { args } => run::program("postroom-torture", &["--locked"], &args),
        Command::Bench { args } => {
            run::program("postroom-bench", &["--locked", "--release", "--no-default-features"], &args)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_after_a_program_reaches_the_program() {
        let cli = Cli::try_parse_from(["xtask", "torture", "--help", "--seed", "7"]).unwrap();
        let Some(Command::Torture { args }) = cli.command else { panic!("not torture") };
        assert_eq!(args, ["--help", "--seed", "7"]);
    }

    #[test]
    fn tidy_takes_a_path_for_its_report_and_no_other_flag() {
        let cli = Cli::try_parse_from(["xtask", "tidy", "--json", "out.json"]).unwrap();
        let Some(Command::Tidy { json }) = cli.command else { panic!("not tidy") };
        assert_eq!(json, Some(PathBuf::from("out.json")));
        for (arguments, said) in [
            (["xtask", "tidy", "--json"].as_slice(), "a value is required for '--json <PATH>'"),
            (&["xtask", "tidy", "--jsn", "out.json"], "unexpected argument '--jsn'"),
            (&["xtask", "tidy", "out.json"], "unexpected argument 'out.json'"),
        ] {
            let Err(error) = Cli::try_parse_from(arguments) else { panic!("{arguments:?} was taken") };
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn filters_follow_two_dashes() {
        let cli = Cli::try_parse_from(["xtask", "test", "--only", "postroom", "--", "claim"]).unwrap();
        let Some(Command::Test { only, filters }) = cli.command else { panic!("not test") };
        assert_eq!((only.as_deref(), filters.as_slice()), (Some("postroom"), &["claim".to_owned()][..]));
    }
}
