//! What can be written after `quorate`, and what it means. Nothing is done here.

mod cluster;

pub use cluster::{AddArgs, ClearAlarmArgs, ClusterCommand, LeadArgs, LeaseArgs, RemoveArgs, RestoreArgs, SnapshotArgs};

use crate::load::shape::Shape;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use quorate_shared::audit::AuditKind;
use quorate_shared::names::RegionName;
use quorate_shared::text::{self, Rate};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

const COORDINATORS: [&str; 3] = ["http://127.0.0.1:7101", "http://127.0.0.1:7102", "http://127.0.0.1:7103"];
const AGENT: &str = "http://127.0.0.1:7201";
const AGENTS: [&str; 3] = ["http://127.0.0.1:7201", "http://127.0.0.1:7202", "http://127.0.0.1:7203"];

/// Global rate limits and quotas, across regions, with a bound that is true.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, arg_required_else_help = true, after_help = "Exit status: 0 done, 1 failed, 2 usage.")]
pub struct CommandLine {
    /// Where to reach the system.
    #[command(flatten)]
    pub reach: ReachArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where to reach coordinators and agents, and as whom.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ReachArgs {
    /// A coordinator; more of them, repeated or separated by commas, are asked in turn until one answers
    #[arg(long, global = true, value_name = "URL", env = "QUORATE_COORDINATOR", value_delimiter = ',', default_values = COORDINATORS)]
    pub coordinator: Vec<BaseUrl>,
    /// The agent to ask
    #[arg(long, global = true, value_name = "URL", env = "QUORATE_AGENT", default_value = AGENT)]
    pub agent: BaseUrl,
    /// A file with the bearer token to send
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole system in this process, on loopback
    Dev(DevArgs),
    /// Run one coordinator node
    Coordinator(RoleArgs),
    /// Run one agent of one region
    #[command(name = "agent")]
    AgentRole(RoleArgs),
    /// Check, compare and replace policy sets
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Ask an agent for one decision; exit status 0 allowed, 1 refused
    Check(CheckArgs),
    /// Show which policies a request meets, whose budget each is, and who holds how much until when
    Explain(ExplainArgs),
    /// Show active budgets: limits, and who holds how much
    Budgets(BudgetsArgs),
    /// Show each region's lease, agents and store
    Regions(ViewArgs),
    /// Show by how much each policy can be exceeded, why, and by how much it was
    Bound(ViewArgs),
    /// Show regions, bounds and the budgets most in demand, live
    Top(TopArgs),
    /// Show what happened: who changed what, when and why, and who was granted how much
    Audit(AuditArgs),
    /// Show the coordinators
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Generate load and measure what the limits made of it
    Load(LoadArgs),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// `quorate dev`.
#[derive(Clone, Debug, Args)]
pub struct DevArgs {
    /// Regions, each with one agent and one store
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "us,eu,ap")]
    pub regions: Vec<RegionName>,
    /// Coordinator nodes: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = coordinators)]
    pub coordinators: u16,
    /// Start a real redis-server for each region, found on PATH, instead of embedded stores
    #[arg(long)]
    pub redis: bool,
    /// Policy set to begin with, instead of the samples
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policies: Option<PathBuf>,
    /// Where to keep data; by default in a temporary directory that is removed at the end
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Ports are counted from here: coordinators +1…, agents +101…, gRPC +201…, Redis +301…
    #[arg(long, value_name = "PORT", default_value_t = 7100, value_parser = clap::value_parser!(u16).range(1..=65_136))]
    pub port_base: u16,
    /// Built-in sample load
    #[arg(long, value_name = "KIND", default_value = "none")]
    pub traffic: Traffic,
    /// Send spans of every request to this collector (OTLP over HTTP)
    #[arg(long, value_name = "URL", value_parser = collector)]
    pub traces: Option<String>,
}

/// Built-in sample load of `quorate dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Traffic {
    /// No requests.
    None,
    /// The same from all regions.
    Steady,
    /// Most from one region after the other.
    FollowTheSun,
    /// The same from all regions, while one of them is cut off from the coordinators now and then.
    Partition,
}

impl Traffic {
    /// How demand moves between the regions; `None` without traffic.
    pub fn shape(self) -> Option<Shape> {
        match self {
            Self::None => None,
            Self::Steady | Self::Partition => Some(Shape::Steady),
            Self::FollowTheSun => Some(Shape::FollowTheSun),
        }
    }
}

/// `quorate coordinator` and `quorate agent`.
#[derive(Clone, Debug, Args)]
pub struct RoleArgs {
    /// Its configuration (TOML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}

/// `quorate policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check policy sets without asking anybody
    Validate {
        /// Policy sets (YAML or JSON), each whole in itself; - is standard input
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
        /// Print one JSON array, with an object for each file
        #[arg(long)]
        json: bool,
    },
    /// Print the policy set that limits as the files of another rate limiter do; what does not carry over is told on
    /// standard error
    Import(ImportArgs),
    /// Show what a policy set would change
    Diff(DiffArgs),
    /// Replace the policy set in force
    Apply(ApplyArgs),
    /// Show the kept versions: who changed what, when and why; or the whole set of one
    History(HistoryArgs),
    /// Make a new version that is equal to an old one
    Rollback(RollbackArgs),
}

/// `quorate policy import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// Whose files they are
    #[arg(long, value_name = "LIMITER")]
    pub from: Limiter,
    /// Rules of one domain may stand in several files, as with MERGE_DOMAIN_CONFIG=true
    #[arg(long)]
    pub merge_domains: bool,
    /// The regions of the set, which other limiters do not have
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "us,eu,ap")]
    pub regions: Vec<RegionName>,
    /// Their files; - is standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// A rate limiter whose files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Limiter {
    /// envoyproxy/ratelimit: a domain with descriptors.
    EnvoyRatelimit,
    /// Limitador: a list of limits.
    Limitador,
}

/// `quorate policy history`.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Print the policy set of this version, whole
    #[arg(value_name = "VERSION")]
    pub version: Option<u64>,
    /// Print the coordinator's answer as it came
    #[arg(long)]
    pub json: bool,
}

/// `quorate policy rollback`.
#[derive(Clone, Debug, Args)]
pub struct RollbackArgs {
    /// The version to go back to; `quorate policy history` lists them
    #[arg(value_name = "VERSION")]
    pub to: u64,
    /// How to put it in force.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// `quorate policy diff`.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The policy set, whole (YAML or JSON); - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print the coordinator's answer as it came
    #[arg(long)]
    pub json: bool,
}

/// `quorate policy apply`.
#[derive(Clone, Debug, Args)]
pub struct ApplyArgs {
    /// The policy set, whole (YAML or JSON); - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// How to put it in force.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// A change of the policy set.
#[derive(Clone, Debug, Default, Args)]
pub struct ChangeArgs {
    /// Replace this version only; by default the one in force when the command begins
    #[arg(long, value_name = "VERSION")]
    pub if_version: Option<u64>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Print the coordinator's answer as it came
    #[arg(long)]
    pub json: bool,
}

/// `quorate check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// What is known of the request
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub attributes: AttributeList,
    /// Tokens it takes; 0 only looks. By default what each policy says
    #[arg(long, value_name = "N")]
    pub cost: Option<u64>,
    /// Print the agent's answer as it came
    #[arg(long)]
    pub json: bool,
}

/// `quorate explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// What is known of the request
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub attributes: AttributeList,
    /// Print what the agent and a coordinator answered
    #[arg(long)]
    pub json: bool,
}

/// A command that shows something.
#[derive(Clone, Debug, Args)]
pub struct ViewArgs {
    /// Print the answer as it came
    #[arg(long)]
    pub json: bool,
    /// Show it again and again, so often, until interrupted
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, default_missing_value = "1s", value_parser = period)]
    pub watch: Option<Duration>,
}

/// `quorate top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    /// Only budgets of this policy
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// By what budgets are sorted: the sum over all regions
    #[arg(long, value_name = "FIELD", default_value = "demand", value_parser = ["demand", "admitted", "refused", "lent"])]
    pub sort: String,
    /// So many budgets at most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// How to show it; on a terminal again each second.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// `quorate audit`.
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    /// Only what happened since so long ago
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    pub since: Option<Duration>,
    /// Only of this policy
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Only of this subject, by its hash
    #[arg(long, value_name = "HASH")]
    pub subject: Option<String>,
    /// Only of this region
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Only of this kind
    #[arg(long, value_name = "KIND", value_parser = AuditKind::ALL.map(AuditKind::name))]
    pub kind: Option<String>,
    /// So many at most, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// How to show it; JSON is one object in each line.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// `quorate budgets`.
#[derive(Clone, Debug, Args)]
pub struct BudgetsArgs {
    /// Only those of this policy
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Only the one of this subject, by its hash
    #[arg(long, value_name = "HASH")]
    pub subject: Option<String>,
    /// By what to sort: name, or the sum over all regions
    #[arg(long, value_name = "FIELD", value_parser = ["policy", "demand", "admitted", "refused", "lent"])]
    pub sort: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// How to show them.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// `quorate load`.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// Agents to send to; regions that are not named are asked of the agents
    #[arg(long, value_name = "[REGION=]URL,…", value_delimiter = ',', default_values = AGENTS)]
    pub agents: Vec<AgentTarget>,
    /// Requests over all regions
    #[arg(long, value_name = "RATE", default_value = "100/s", value_parser = text::rate)]
    pub rate: Rate,
    /// How long to send
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = text::duration)]
    pub duration: Duration,
    /// How demand moves between the regions; one cycle takes the whole duration
    #[arg(long, value_name = "SHAPE", default_value = "steady")]
    pub shape: Shape,
    /// Attributes of every request
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub attributes: Option<AttributeList>,
    /// Tokens that each request takes; by default what each policy says
    #[arg(long, value_name = "N")]
    pub cost: Option<u64>,
    /// Replay recorded requests instead: tab-separated offset_s, region, client, method, route, status, bytes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["rate", "duration", "shape"])]
    pub trace: Option<PathBuf>,
    /// How many times faster than recorded
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed, requires = "trace")]
    pub speed: f64,
    /// Requests under way at once; more wait, and are counted as late
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = timeout)]
    pub timeout: Duration,
    /// Measure against this policy set instead of the one in force
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policies: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// An HTTP address without a path, and without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("write it as http://HOST:PORT, such as {AGENT}");
        let url = reqwest::Url::parse(text).map_err(|_| wrong())?;
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let anonymous = url.username().is_empty() && url.password().is_none();
        match matches!(url.scheme(), "http" | "https") && url.has_host() && bare && anonymous {
            true => Ok(Self(url.as_str().trim_end_matches('/').to_owned())),
            false => Err(wrong()),
        }
    }
}

/// An agent to send load to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentTarget {
    /// Its region; absent: to be asked.
    pub region: Option<RegionName>,
    /// Where it is.
    pub url: BaseUrl,
}

impl FromStr for AgentTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((region, url)) => {
                let region = region.parse::<RegionName>().map_err(|e| e.to_string())?;
                Ok(Self { region: Some(region), url: url.parse()? })
            }
            None => Ok(Self { region: None, url: text.parse()? }),
        }
    }
}

/// `name=value,name=value`. Values hold no comma.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeList(pub BTreeMap<String, String>);

impl FromStr for AttributeList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut attributes = BTreeMap::new();
        for pair in text.split(',').filter(|_| !text.is_empty()) {
            let (name, value) =
                pair.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| format!("`{pair}` is not NAME=VALUE"))?;
            if attributes.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        Ok(Self(attributes))
    }
}

fn collector(text: &str) -> Result<String, String> {
    text::collector(text).map_err(|error| error.to_string())
}

fn coordinators(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(n @ (1 | 3 | 5)) => Ok(n),
        _ => Err("1, 3 or 5: an even number would tolerate no more failures than the odd one below it".to_owned()),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        _ => Err("a number above 0, such as 5000".to_owned()),
    }
}

/// Not so short that looking costs more than what is looked at.
fn period(text: &str) -> Result<Duration, String> {
    match text::duration(text) {
        Ok(span) if span < Duration::from_millis(100) => Err("100ms or more".to_owned()),
        Ok(span) => Ok(span),
        Err(e) => Err(e.to_string()),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    match text::duration(text) {
        Ok(span) if span.is_zero() => Err("longer than 0".to_owned()),
        Ok(span) => Ok(span),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<CommandLine, clap::Error> {
        CommandLine::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn only_what_is_there_is_listed() {
        let help = CommandLine::command().render_long_help().to_string();
        assert!(help.contains("audit") && help.contains("top"));
        assert!(!help.contains("reserve"), "agents have it, the command line has not");
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        for line in ["quorate --coordinator http://a:1/ regions", "quorate regions --coordinator http://a:1"] {
            let urls: Vec<String> = parse(line).expect("good").reach.coordinator.iter().map(BaseUrl::to_string).collect();
            assert_eq!(urls, ["http://a:1"]);
        }
        let two = parse("quorate regions --coordinator http://a:1 --coordinator http://b:2,http://c:3").expect("good");
        assert_eq!(two.reach.coordinator.len(), 3);
    }

    #[test]
    fn addresses_are_whole_or_refused() {
        for bad in ["127.0.0.1:7101", "ftp://a", "http://", "http://a/x", "http://a?x", "http://me:secret@a", ""] {
            assert!(bad.parse::<BaseUrl>().is_err(), "{bad}");
        }
        let agent: AgentTarget = "us=http://127.0.0.1:7201".parse().expect("good");
        assert_eq!(agent.region.as_ref().map(RegionName::as_str), Some("us"));
        assert!("US=http://127.0.0.1:7201".parse::<AgentTarget>().is_err());
    }

    #[test]
    fn attributes_are_pairs_and_each_is_given_once() {
        let list: AttributeList = "route=write,tenant=a=b,empty=".parse().expect("good");
        assert_eq!((list.0["tenant"].as_str(), list.0["empty"].as_str(), list.0.len()), ("a=b", "", 3));
        for bad in ["route", "=x", "a=1,a=2", "a=1,"] {
            assert!(bad.parse::<AttributeList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_without_a_unit_and_contradictions_are_usage_errors() {
        for bad in [
            "quorate load --duration 30",
            "quorate load --rate 100",
            "quorate load --timeout 0s",
            "quorate load --trace f --rate 10/s",
            "quorate load --speed 10",
            "quorate load --trace f --speed 0",
            "quorate load --connections 0",
            "quorate dev --coordinators 2",
            "quorate dev --regions US",
            "quorate dev --port-base 65500",
            "quorate check",
            "quorate explain",
        ] {
            assert_eq!(parse(bad).expect_err(bad).exit_code(), 2, "{bad}");
        }
    }
}
