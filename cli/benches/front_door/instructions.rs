//! How many instructions an answer takes, by callgrind: what a server does for so many questions, divided by them.

use super::client::Load;
use super::system::{Contender, System};
use std::path::Path;
use std::process::{Command, Stdio};

/// Questions on each connection before it counts, and while it does.
const QUESTIONS: [usize; 2] = [100, 500];

const CONNECTIONS: usize = 16;

/// Prints the instructions of each answer, or that there is no valgrind.
pub fn print(only: &str) {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("\nno instructions: valgrind is not on PATH");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = format!("--callgrind-out-file={}/%p", folder.path().display());
    let system = System::start_under(&["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", &out], only);
    println!("\n{CONNECTIONS} connections under callgrind; of a Redis nothing is counted\n");
    println!("| server | instructions for an answer | ratio |");
    println!("|---|---|---|");
    let mut first = None;
    for contender in system.contenders() {
        let each = instructions(contender, folder.path());
        let first = *first.get_or_insert(each);
        println!("| {} | {each:.0} | {:.2} |", contender.name, each / first);
    }
}

fn instructions(contender: &Contender, folder: &Path) -> f64 {
    let load = Load { address: contender.address, connections: CONNECTIONS, pace: None };
    let [before, counted] = QUESTIONS;
    control(contender, &["-i", "on"]);
    load.ask(before);
    control(contender, &["-z"]);
    let answers = load.ask(counted);
    control(contender, &["-d"]);
    control(contender, &["-i", "off"]);
    let dump = std::fs::read_to_string(folder.join(format!("{}.1", contender.process))).expect("a dump");
    let total = dump.lines().rev().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: "))).expect("a total");
    total.trim().parse::<f64>().expect("a number") / answers.count as f64
}

fn control(contender: &Contender, arguments: &[&str]) {
    let done = Command::new("callgrind_control").args(arguments).arg(contender.process.to_string()).stdout(Stdio::null()).status();
    assert!(done.expect("it comes with valgrind").success(), "{arguments:?}");
}
