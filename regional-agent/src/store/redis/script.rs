//! The scripts: each is a clock, the constants that Rust and Lua share, and what it needs of the
//! common parts, in one text.

use crate::store::keep::{ATTEMPT_LIFE, MOST_ATTEMPTS};
use crate::store::look::AGENT_LIFE;
use quorate_limiter::bucket::{GRACE, LIFE_WITHOUT_REFILL, LONGEST_LIFE};
use quorate_limiter::estimates::{GRAINS, LEAST_GRAIN};
use quorate_limiter::excess::{MOST_EXCESSES, SPAN};
use quorate_limiter::record::{ANEW_MEMORY, CHANGE_MEMORY, CLOCKS_APART, RECORD_LIFE};
use quorate_limiter::slots::{MOST_SLOTS, REMEMBERED};
use quorate_shared::policy::MAX_LOG_ENTRIES;
use quorate_shared::units::MAX_EXACT;

/// Sets `now`, in microseconds, from the clock of the Redis host.
const CLOCK: &str = include_str!("../scripts/clock.lua");
/// Whether what the record says is to be believed.
const TRUST: &str = include_str!("../scripts/trust.lua");
const LEASE: &str = include_str!("../scripts/lease.lua");
const EXCESS: &str = include_str!("../scripts/excess.lua");
const SLOTS: &str = include_str!("../scripts/slots.lua");
const KEEP: &str = include_str!("../scripts/keep.lua");
const BUCKET: &str = include_str!("../scripts/bucket.lua");
const BUCKETS: &str = include_str!("../scripts/buckets.lua");
const DECIDE: &str = include_str!("../scripts/decide.lua");
const SHARE: &str = include_str!("../scripts/share.lua");
const LOG: &str = include_str!("../scripts/log.lua");
const SLIDING: &str = include_str!("../scripts/sliding.lua");
const WINDOW: &str = include_str!("../scripts/window.lua");

/// A script and its hash.
#[derive(Debug)]
pub struct Script {
    text: String,
    sha: String,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }

    /// Its source.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What `EVALSHA` calls it.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

/// All scripts of a store.
#[derive(Debug)]
pub struct Scripts {
    /// A question.
    pub decide: Script,
    /// The same, of charges on buckets alone and with nothing kept beside: Lua makes fewer functions in each call.
    pub decide_buckets: Script,
    /// The settlement of a hold.
    pub settle: Script,
    /// The return of slots.
    pub release: Script,
    /// Whether slots are held yet.
    pub held: Script,
    /// Whether the record is to be believed.
    pub trust: Script,
    /// A new session.
    pub open: Script,
    /// The number of a heartbeat.
    pub draw: Script,
    /// The beginning of a response's application.
    pub take: Script,
    /// What is held.
    pub write: Script,
    /// Units of allowances.
    pub grant: Script,
    /// The end of a response's application.
    pub finish: Script,
    /// What budgets have counting, or have spent.
    pub usage: Script,
    /// An agent's word on its seat.
    pub seat: Script,
    /// An agent's look at its region.
    pub look: Script,
    /// The policy sets that the region's agents share.
    pub shelve: Script,
}

impl Scripts {
    /// The scripts on the clock of the Redis host.
    pub fn new() -> Self {
        Self::on_clock(CLOCK)
    }

    /// The scripts on another clock, for tests: Lua that sets `now`.
    pub fn on_clock(clock: &str) -> Self {
        let constants = constants();
        let script = |parts: &[&str]| {
            let all: Vec<&str> = [clock, &constants, TRUST].into_iter().chain(parts.iter().copied()).collect();
            Script::new(&all)
        };
        Self {
            decide: script(&[
                LEASE,
                BUCKET,
                BUCKETS,
                SHARE,
                LOG,
                SLIDING,
                EXCESS,
                SLOTS,
                WINDOW,
                KEEP,
                include_str!("../scripts/kinds.lua"),
                DECIDE,
            ]),
            decide_buckets: script(&[LEASE, BUCKET, BUCKETS, include_str!("../scripts/only_buckets.lua"), DECIDE]),
            settle: script(&[LEASE, BUCKET, SHARE, LOG, SLIDING, EXCESS, SLOTS, WINDOW, include_str!("../scripts/settle.lua")]),
            release: script(&[LEASE, BUCKET, SHARE, LOG, EXCESS, SLOTS, include_str!("../scripts/release.lua")]),
            held: script(&[LEASE, BUCKET, SHARE, LOG, EXCESS, SLOTS, include_str!("../scripts/held.lua")]),
            trust: script(&[LEASE, "return {'done'}"]),
            open: script(&[include_str!("../scripts/open.lua")]),
            draw: script(&[LEASE, include_str!("../scripts/draw.lua")]),
            take: script(&[LEASE, include_str!("../scripts/take.lua")]),
            write: script(&[LEASE, BUCKET, include_str!("../scripts/write.lua")]),
            grant: script(&[LEASE, include_str!("../scripts/grant.lua")]),
            finish: script(&[LEASE, BUCKET, include_str!("../scripts/finish.lua")]),
            seat: script(&[LEASE, include_str!("../scripts/seat.lua")]),
            usage: script(&[LEASE, BUCKET, SHARE, LOG, SLIDING, EXCESS, SLOTS, WINDOW, include_str!("../scripts/usage.lua")]),
            look: script(&[include_str!("../scripts/look.lua")]),
            shelve: script(&[LEASE, include_str!("../scripts/shelve.lua")]),
        }
    }

    /// Each of them.
    pub fn all(&self) -> [&Script; 16] {
        let Self {
            decide,
            decide_buckets,
            settle,
            release,
            held,
            trust,
            open,
            draw,
            take,
            write,
            grant,
            finish,
            usage,
            seat,
            look,
            shelve,
        } = self;
        [decide, decide_buckets, settle, release, held, trust, open, draw, take, write, grant, finish, usage, seat, look, shelve]
    }
}

/// What both languages must agree on, said once, in Rust.
fn constants() -> String {
    let micros = |name: &str, span: std::time::Duration| format!("local {name} = {}\n", span.as_micros());
    let seconds = |name: &str, span: std::time::Duration| format!("local {name} = {}\n", span.as_secs());
    [
        format!("local MAX_EXACT = {MAX_EXACT}\n"),
        format!("local MOST_SLOTS = {MOST_SLOTS}\n"),
        micros("SLOTS_REMEMBERED", REMEMBERED),
        micros("EXCESS_SPAN", SPAN),
        format!("local MOST_EXCESSES = {MOST_EXCESSES}\n"),
        format!("local MAX_LOG_ENTRIES = {MAX_LOG_ENTRIES}\n"),
        micros("GRACE", GRACE),
        micros("AGENT_LIFE", AGENT_LIFE),
        format!("local AGENTS_LIFE_MS = '{}'\n", 2 * AGENT_LIFE.as_millis()),
        micros("CHANGE_MEMORY", CHANGE_MEMORY),
        micros("ANEW_MEMORY", ANEW_MEMORY),
        micros("CLOCKS_APART", CLOCKS_APART),
        micros("LEAST_GRAIN", LEAST_GRAIN),
        format!("local GRAINS = {GRAINS}\n"),
        seconds("LIFE_WITHOUT_REFILL", LIFE_WITHOUT_REFILL),
        seconds("LONGEST_LIFE", LONGEST_LIFE),
        format!("local MOST_ATTEMPTS = {MOST_ATTEMPTS}\n"),
        format!("local ATTEMPT_LIFE_MS = '{}'\n", ATTEMPT_LIFE.as_millis()),
        format!("local RECORD_LIFE_MS = '{}'\n", RECORD_LIFE.as_millis()),
    ]
    .concat()
}
