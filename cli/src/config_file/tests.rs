//! What bad configurations are told, exactly.

use super::{parse, shown};
use quorate_agent::config::{AgentConfig, StoreConfig};
use quorate_coordinator::config::{CoordinatorConfig, Role};
use quorate_shared::located::{Mistake, Node};
use quorate_shared::settings::{LogFormat, LogLevel, LogSettings};
use std::time::Duration;

/// A line and all that is wrong with it.
type Case = (&'static str, &'static [&'static str]);

const COORDINATOR: &str = "node = 1\nlisten = \"127.0.0.1:7101\"\ndata-dir = \"data\"\nmembers = { 1 = \"127.0.0.1:7101\" }\n";

const AGENT: &str =
    "region = \"us\"\nlisten = \"127.0.0.1:7201\"\ncoordinators = [\"http://127.0.0.1:7101\"]\nstore = { kind = \"embedded\" }\n";

/// Each takes the place of the line of the same field.
const COORDINATORS: &[Case] = &[
    ("node = 0", &["1:8: /node: expected a whole number from 1 to 1000000, found the number `0`"]),
    ("node = \"1\"", &["1:8: /node: expected a whole number from 1 to 1000000, found the text `1`"]),
    ("node = 1.5", &["1:8: /node: expected a whole number from 1 to 1000000, found the number `1.5`"]),
    ("node = 4", &["4:11: /members: node 4 is not among the members, and it is this node"]),
    ("nodes = 1", &["1:1: /nodes: unknown key `nodes`; did you mean `node`?"]),
    (
        "listen = \"localhost:7101\"",
        &[
            "1:10: /listen: `localhost:7101` is not an address to listen on: write an IP address and a port, such as `127.0.0.1:7101` or `[::1]:7101`",
        ],
    ),
    (
        "listen = \"0.0.0.0:7101\"",
        &[
            "1:10: /listen: others can reach 0.0.0.0:7101, and without `tokens` anybody may do anything; list the hashes of your tokens in `tokens`, or listen on 127.0.0.1",
        ],
    ),
    (
        "listen = 7101",
        &["1:10: /listen: `7101` is not an address to listen on: write an IP address and a port, such as `127.0.0.1:7101` or `[::1]:7101`"],
    ),
    ("data-dir = \"\"", &["1:12: /data-dir: expected a path, found the text ``"]),
    ("data-dir = 5", &["1:12: /data-dir: expected a path, found the number `5`"]),
    ("members = {}", &["1:11: /members: 0 members; 1, 3 or 5, so that a majority is left when one or two fail"]),
    (
        "members = { 1 = \"127.0.0.1:7101\", 2 = \"127.0.0.1:7102\" }",
        &["1:11: /members: 2 members; 1, 3 or 5, so that a majority is left when one or two fail"],
    ),
    (
        "members = { 1 = \"a:1\", 2 = \"a:1\", 3 = \"b\" }",
        &[
            "1:28: /members/2: another member has this address in line 1",
            "1:39: /members/3: `b` is not a host and a port: write a host and a port, such as `10.0.0.1:7101` or `coordinator-1.internal:7101`",
        ],
    ),
    ("members = { one = \"a:1\" }", &["1:19: /members/one: `one` is not the number of a node, from 1 to 1000000"]),
    ("members = { 01 = \"a:1\" }", &["1:18: /members/01: `01` is not the number of a node, from 1 to 1000000"]),
    (
        "members = [\"127.0.0.1:7101\"]",
        &["1:11: /members: expected a map of numbers to addresses, such as { 1 = \"10.0.0.1:7101\" }, found a list"],
    ),
    ("members = { 2 = \"127.0.0.1:7101\" }", &["1:11: /members: node 1 is not among the members, and it is this node"]),
    (
        "advertise = \"127.0.0.1\"",
        &[
            "1:13: /advertise: `127.0.0.1` is not a host and a port: write a host and a port, such as `10.0.0.1:7101` or `coordinator-1.internal:7101`",
        ],
    ),
    (
        "advertise = \"10.0.0.1:7101\"",
        &["1:13: /advertise: this is node 1, and `members` has it at 127.0.0.1:7101; both must say the same"],
    ),
    (
        "lease = 5",
        &["1:9: /lease: `5` is not a duration: a unit is missing; write for example `5s` or `5ms` (units: us, ms, s, min, h, d)"],
    ),
    (
        "lease = \"5\"",
        &["1:9: /lease: `5` is not a duration: a unit is missing; write for example `5s` or `5ms` (units: us, ms, s, min, h, d)"],
    ),
    ("lease = \"100ms\"", &["1:9: /lease: 100ms is not between 1s and 1min"]),
    ("lease = \"2min\"", &["1:9: /lease: 2min is not between 1s and 1min"]),
    ("drift-ppm = 100001", &["1:13: /drift-ppm: expected a whole number from 0 to 100000, found the number `100001`"]),
    ("drift-ppm = -1", &["1:13: /drift-ppm: expected a whole number from 0 to 100000, found the number `-1`"]),
    ("election-timeout = \"10ms\"", &["1:20: /election-timeout: 10ms is not between 200ms and 10s"]),
    (
        "election_timeout = \"600ms\"\nelection-timeout = \"600ms\"",
        &["1:1: /election_timeout: `election_timeout` is already there in line 2"],
    ),
    ("policies = []", &["1:12: /policies: expected a path, found a list"]),
    ("peer-token-file = false", &["1:19: /peer-token-file: expected a path, found `false`"]),
    ("log = \"debug\"", &["1:7: /log: expected a map with `format`, `level`, found the text `debug`"]),
    (
        "log = { format = \"xml\", level = \"verbose\", file = \"x\" }",
        &[
            "1:18: /log/format: expected `text` or `json`, found `xml`",
            "1:33: /log/level: expected `error`, `warn`, `info`, `debug` or `trace`, found `verbose`",
            "1:44: /log/file: unknown key `file`; known here: `format`, `level`",
        ],
    ),
    (
        "traces = \"http://127.0.0.1:4318\"",
        &["1:10: /traces: expected a map with `endpoint`, `sample`, found the text `http://127.0.0.1:4318`"],
    ),
    (
        "traces = { endpoint = \"127.0.0.1:4318\", sample = 0.5 }",
        &[
            "1:23: /traces/endpoint: `127.0.0.1:4318` is not the URL of a collector: write scheme, host and port, such as `http://127.0.0.1:4318`",
            "1:50: /traces/sample: `0.5` is not a share: a share is written in percent: a half is `50%`",
        ],
    ),
    (
        "log = { level = \"Info\" }",
        &["1:17: /log/level: expected `error`, `warn`, `info`, `debug` or `trace`, found `Info`; did you mean `info`?"],
    ),
    (
        "tokens = \"secret\"",
        &[
            "1:10: /tokens: expected a list of tokens, such as [{ name = \"ops\", role = \"operator\", sha256 = \"…\" }]; the token itself is not written here",
        ],
    ),
    (
        "tokens = [\"secret\"]",
        &["1:11: /tokens/0: expected a map with a name and the SHA-256 of the token; the token itself is not written here"],
    ),
    (
        "tokens = [{}]",
        &[
            "1:11: /tokens/0/name: `name` is missing",
            "1:11: /tokens/0/sha256: `sha256` is missing, the hash of the token in hexadecimal; get it by `printf %s \"$TOKEN\" | sha256sum`",
            "1:11: /tokens/0/role: `role` is missing",
        ],
    ),
    (
        "tokens = [{ name = \"ops\", role = \"operator\", sha256 = \"secret\" }]",
        &["1:55: /tokens/0/sha256: expected the SHA-256 of the token, 64 hexadecimal digits; the token itself is not written here"],
    ),
    (
        "tokens = [{ name = \"ops\", role = \"admin\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }]",
        &["1:34: /tokens/0/role: expected `viewer`, `operator`, `agent` or `peer`, found `admin`"],
    ),
    (
        "tokens = [{ name = \"us\", role = \"agent\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }]",
        &["1:11: /tokens/0/region: `region` is missing, the one region that this agent may speak for"],
    ),
    (
        "tokens = [{ name = \"us\", role = \"agent\", region = \"US\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }]",
        &["1:51: /tokens/0/region: `US` is not a name: 1 to 63 of a-z, 0-9 and `-`"],
    ),
    (
        "tokens = [{ name = \"ops\", role = \"viewer\", region = \"us\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }]",
        &["1:53: /tokens/0/region: a region belongs to the role `agent`, and this is a token of role `viewer`"],
    ),
    (
        "tokens = [{ name = \"a\", role = \"viewer\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }, { name = \"a\", role = \"viewer\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }]",
        &["1:130: /tokens/1/name: another token has this name in line 1", "1:161: /tokens/1/sha256: another token has this hash in line 1"],
    ),
    (
        "tokens = [{ name = \"a\", role = \"viewer\", sha256 = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\" }]",
        &["1:51: /tokens/0/sha256: this is the hash of an empty token"],
    ),
    (
        "members = { 1 = \"a:1\", 2 = \"b:1\", 3 = \"c:1\" }\ntokens = [{ name = \"a\", role = \"viewer\", sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\" }]",
        &[
            "1:1: /peer-token-file: `peer-token-file` is missing: where there are tokens, this node needs one to speak to the others",
            "2:10: /tokens: none has the role `peer`: the nodes would refuse each other",
        ],
    ),
    ("lease = ", &["1:9: cannot be read as TOML: string values must be quoted, expected literal string"]),
    ("lease = 5s", &["1:9: cannot be read as TOML: string values must be quoted, expected literal string"]),
    (
        "max-body = 1_000",
        &[
            "1:1: /max-body: unknown key `max-body`; known here: `node`, `listen`, `advertise`, `data-dir`, `members`, `join`, `lease`, `drift-ppm`, `election-timeout`, `policies`, `backup`, `tokens`, `peer-token-file`, `log`, `traces`",
        ],
    ),
    (
        "a = 1979-05-27",
        &[
            "1:1: /a: unknown key `a`; known here: `node`, `listen`, `advertise`, `data-dir`, `members`, `join`, `lease`, `drift-ppm`, `election-timeout`, `policies`, `backup`, `tokens`, `peer-token-file`, `log`, `traces`",
        ],
    ),
    ("= 1", &["1:1: cannot be read as TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`"]),
    ("node = 1\nnode = 2", &["2:1: cannot be read as TOML: duplicate key"]),
    (
        "a = [1\nlease = ",
        &[
            "2:1: cannot be read as TOML: missing comma between array elements, expected `,`",
            "3:1: cannot be read as TOML: missing comma between array elements, expected `,`",
            "4:1: cannot be read as TOML: missing comma between array elements, expected `,`",
            "5:1: cannot be read as TOML: missing comma between array elements, expected `,`",
            "6:1: cannot be read as TOML: missing comma between array elements, expected `,`",
        ],
    ),
];

/// Each takes the place of the line of the same field.
const AGENTS: &[Case] = &[
    ("region = \"US\"", &["1:10: /region: `US` is not a name: 1 to 63 of a-z, 0-9 and `-`"]),
    ("region = 5", &["1:10: /region: expected a name, found the number `5`"]),
    ("name = \"a b\"", &["1:8: /name: `a b` is not a name: 1 to 63 of a-z, 0-9 and `-`"]),
    (
        "listen = \"0.0.0.0:7201\"",
        &[
            "1:10: /listen: others can reach 0.0.0.0:7201, and without `tokens` anybody may do anything; list the hashes of your tokens in `tokens`, or listen on 127.0.0.1",
        ],
    ),
    (
        "grpc-listen = \"0.0.0.0:7301\"",
        &[
            "1:15: /grpc-listen: others can reach 0.0.0.0:7301, and without `tokens` anybody may do anything; list the hashes of your tokens in `tokens`, or listen on 127.0.0.1",
        ],
    ),
    ("coordinators = []", &["1:16: /coordinators: at least one coordinator is needed"]),
    (
        "coordinators = \"http://a:1\"",
        &["1:16: /coordinators: expected a list of URLs, such as [\"http://127.0.0.1:7101\"], found the text `http://a:1`"],
    ),
    (
        "coordinators = [\"127.0.0.1:7101\", \"http://a\", \"http://a:1/v1\", \"http://a:1\", \"http://a:1/\", 5]",
        &[
            "1:17: /coordinators/0: `127.0.0.1:7101` is not the URL of a coordinator: write scheme, host and port, such as `http://10.0.0.1:7101`",
            "1:35: /coordinators/1: `http://a` is not the URL of a coordinator: write scheme, host and port, such as `http://10.0.0.1:7101`",
            "1:47: /coordinators/2: `http://a:1/v1` is not the URL of a coordinator: write scheme, host and port, such as `http://10.0.0.1:7101`",
            "1:78: /coordinators/4: this coordinator is already there in line 1",
            "1:93: /coordinators/5: expected a URL, found the number `5`",
        ],
    ),
    ("token-file = \"\"", &["1:14: /token-file: expected a path, found the text ``"]),
    ("store = \"redis\"", &["1:9: /store: expected a map, such as { kind = \"redis\", url = \"redis://127.0.0.1:6379\" }"]),
    ("store = {}", &["1:9: /store/kind: `kind` is missing"]),
    ("store = { kind = \"memcached\" }", &["1:18: /store/kind: expected `embedded` or `redis`"]),
    ("store = { kind = \"redis\" }", &["1:9: /store/url: `url` is missing, such as \"redis://127.0.0.1:6379\""]),
    ("store = { kind = \"embedded\", url = \"redis://a\" }", &["1:36: /store/url: an embedded store has no URL"]),
    (
        "store = { kind = \"redis\", url = \"rediss://user:secret@a:1\" }",
        &["1:33: /store/url: this version speaks to Redis without TLS only: `redis://`"],
    ),
    ("store = { kind = \"redis\", url = \"http://user:secret@a:1\" }", &["1:33: /store/url: write a URL such as `redis://127.0.0.1:6379`"]),
    (
        "store = { kind = \"redis\", url = \"redis://user:secret@a b:1\" }",
        &["1:33: /store/url: write a URL such as `redis://127.0.0.1:6379`"],
    ),
    ("store = { kind = \"redis\", url = \"redis://a:1/zero\" }", &["1:33: /store/url: write a URL such as `redis://127.0.0.1:6379`"]),
    ("heartbeat = \"1m\"", &["1:13: /heartbeat: `1m` is not a duration: the unit is written `min`: `1min`"]),
    ("heartbeat = \"1min\"", &["1:13: /heartbeat: 1min is not between 100ms and 10s"]),
    (
        "store = { kind = \"redis\", url = \"redis://limits\", sentinels = [\"a:1\"] }",
        &["1:64: /store/sentinels/0: write a URL such as `redis://127.0.0.1:6379`"],
    ),
    ("store = { kind = \"embedded\", sentinels = [] }", &["1:42: /store/sentinels: an embedded store has no URL"]),
    ("store-timeout = \"0s\"", &["1:17: /store-timeout: 0s is not between 1ms and 10s"]),
    ("store-waiting = 0", &["1:17: /store-waiting: expected a whole number from 1 to 65536, found the number `0`"]),
    ("store-open-for = \"2d\"", &["1:18: /store-open-for: 2d is not between 0s and 1d"]),
    ("max-body = 10", &["1:12: /max-body: expected a whole number from 1024 to 16777216, found the number `10`"]),
    ("max-body = \"64KiB\"", &["1:12: /max-body: expected a whole number from 1024 to 16777216, found the text `64KiB`"]),
    ("legacy-headers = 1", &["1:18: /legacy-headers: expected `true` or `false`, found the number `1`"]),
    ("authz = { hops = 0 }", &["1:18: /authz/hops: expected a whole number from 1 to 255, found the number `0`"]),
    ("authz = { ipv6-prefix = 129 }", &["1:25: /authz/ipv6-prefix: expected a whole number from 32 to 128, found the number `129`"]),
    ("authz = { address-header = \"a b\" }", &["1:28: /authz/address-header: `a b` is not the name of a header field"]),
    (
        "authz = { trusted-proxies = [\"10.0.0.1/8\", \"gateway\", \"10.0.0.1\", \"fd00::/8\"] }",
        &[
            "1:30: /authz/trusted-proxies/0: `10.0.0.1/8` has bits beyond its prefix; did you mean `10.0.0.0/8`?",
            "1:44: /authz/trusted-proxies/1: `gateway` is neither an address nor a network such as `10.0.0.0/8`",
        ],
    ),
    (
        "authz = { attributes = { tenant = \"X-Tenant\", ip = { field = \"a\" }, n = 5, path = \"path\" } }",
        &[
            "1:35: /authz/attributes/tenant: expected `client-address`, `path`, `method`, `host` or { header = \"X-Tenant\" }, found the text `X-Tenant`",
            "1:52: /authz/attributes/ip/header: `header` is missing",
            "1:54: /authz/attributes/ip/field: unknown key `field`; known here: `header`",
            "1:73: /authz/attributes/n: expected `client-address`, `path`, `method`, `host` or { header = \"X-Tenant\" }, found the number `5`",
        ],
    ),
    (
        "tokens = [{ name = \"g\", role = \"viewer\", sha256 = \"x\" }]",
        &[
            "1:25: /tokens/0/role: unknown key `role`; known here: `name`, `sha256`",
            "1:51: /tokens/0/sha256: expected the SHA-256 of the token, 64 hexadecimal digits; the token itself is not written here",
        ],
    ),
    ("stores = 1", &["1:1: /stores: unknown key `stores`; did you mean `store`?"]),
];

fn from_text<T>(text: &str, from_node: impl FnOnce(&Node) -> Result<T, Vec<Mistake>>) -> Result<T, Vec<String>> {
    let read = parse(text.as_bytes()).and_then(|document| from_node(&document));
    read.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

fn assert_told<T: std::fmt::Debug>(good: &str, cases: &[Case], from_node: impl Fn(&Node) -> Result<T, Vec<Mistake>>) {
    from_text(good, &from_node).expect("it is good");
    let field = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    for (line, expected) in cases {
        let others: Vec<&str> = good.lines().filter(|l| field(l) != field(line)).collect();
        let text = format!("{line}\n{}\n", others.join("\n"));
        assert_eq!(from_text(&text, &from_node).expect_err(line), *expected, "{line}");
    }
}

#[test]
fn every_mistake_of_a_coordinator_is_told_in_its_place() {
    assert_told(COORDINATOR, COORDINATORS, CoordinatorConfig::from_node);
}

#[test]
fn every_mistake_of_an_agent_is_told_in_its_place() {
    assert_told(AGENT, AGENTS, AgentConfig::from_node);
}

#[test]
fn what_is_not_said_is_as_in_code() {
    let read = from_text(COORDINATOR, CoordinatorConfig::from_node).expect("it is good");
    assert_eq!(read, CoordinatorConfig::new(1, read.listen, read.members.clone(), "data"));
    let read = from_text(&format!("\u{feff}{AGENT}"), AgentConfig::from_node).expect("it is good");
    assert_eq!(read, AgentConfig::new(read.region.clone(), read.listen, read.coordinators.clone(), StoreConfig::Embedded));
}

#[test]
fn a_whole_coordinator_means_what_it_says() {
    let text = format!(
        "node = 2\nlisten = \"0.0.0.0:7101\"\nadvertise = \"b.internal:7101\"\ndata-dir = \"/var/lib/quorate\"\nlease = \"10s\"\ndrift-ppm = 500\n\
         election-timeout = \"1s\"\npolicies = \"policies.yaml\"\npeer-token-file = \"peer.token\"\n\
         [members]\n1 = \"a.internal:7101\"\n2 = \"b.internal:7101\"\n3 = \"c.internal:7101\"\n\
         [log]\nformat = \"json\"\nlevel = \"debug\"\n\
         [[tokens]]\nname = \"us\"\nrole = \"agent\"\nregion = \"us\"\nsha256 = \"{}\"\n[[tokens]]\nname = \"peers\"\nrole = \"peer\"\nsha256 = \"{}\"\n",
        "0f".repeat(32),
        "F0".repeat(32)
    );
    let config = from_text(&text, CoordinatorConfig::from_node).expect("it is good").relative_to("/etc/quorate".as_ref());
    assert_eq!((config.node, config.advertise.as_str(), config.members.len()), (2, "b.internal:7101", 3));
    assert_eq!((config.lease, config.drift.ppm(), config.election_timeout), (Duration::from_secs(10), 500, Duration::from_secs(1)));
    assert_eq!(config.data_dir.to_str(), Some("/var/lib/quorate"));
    assert_eq!(config.policies.as_deref().and_then(|p| p.to_str()), Some("/etc/quorate/policies.yaml"));
    assert_eq!(config.log, LogSettings { format: LogFormat::Json, level: LogLevel::Debug });
    assert_eq!(config.tokens[0].role, Role::Agent("us".parse().expect("a name")));
    assert_eq!((config.tokens[1].role.clone(), config.tokens[1].sha256.as_bytes()), (Role::Peer, &[0xf0; 32]));
}

#[test]
fn what_gateways_say_is_read_as_configured() {
    let text = format!(
        "{AGENT}\nlegacy-headers = true\n[authz]\nattributes = {{ tenant = {{ header = \"X-Tenant\" }}, client = \"client-address\" }}\n\
         trusted-proxies = [\"10.0.0.0/8\", \"::1\"]\naddress-header = \"Forwarded\"\nhops = 2\nipv6-prefix = 56\n"
    );
    let config = from_text(&text, AgentConfig::from_node).expect("it is good");
    assert!(config.legacy_headers);
    let authz = config.authz;
    let sources: Vec<String> = authz.attributes.iter().map(|(name, source)| format!("{name}: {source:?}")).collect();
    assert_eq!(sources, ["client: ClientAddress", "tenant: Header(\"x-tenant\")"]);
    let networks: Vec<String> = authz.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "::1/128"]);
    assert_eq!((authz.address_header.as_str(), authz.hops.map(u8::from), authz.ipv6_prefix), ("forwarded", Some(2), 56));
}

#[test]
fn urls_of_redis_have_a_host_and_perhaps_more() {
    for url in ["redis://127.0.0.1", "redis://user:p@ss@[::1]:7000/3", "redis://[::1]", "redis://redis.internal/", "redis://a:6379/0"] {
        let text = AGENT.replace("\"embedded\"", &format!("\"redis\", url = \"{url}\""));
        let config = from_text(&text, AgentConfig::from_node).expect(url);
        assert!(matches!(&config.store, StoreConfig::Redis(read) if read.url.as_str() == url));
        assert!(!format!("{config:?}").contains("p@ss"));
    }
}

#[test]
fn sentinels_are_asked_for_the_name_in_the_place_of_a_host() {
    let text =
        AGENT.replace("\"embedded\"", "\"redis\", url = \"redis://limits\", sentinels = [\"redis://10.0.0.1:26379\", \"redis://:p@b\"]");
    let config = from_text(&text, AgentConfig::from_node).expect("it is good");
    let StoreConfig::Redis(redis) = config.store else { panic!("not Redis") };
    let sentinels: Vec<&str> = redis.sentinels.iter().map(quorate_agent::config::RedisUrl::as_str).collect();
    assert_eq!((redis.url.as_str(), sentinels), ("redis://limits", vec!["redis://10.0.0.1:26379", "redis://:p@b"]));
}

#[test]
fn a_credential_is_not_shown_in_its_line() {
    let text =
        format!("{}\ntokens = [{{ name = \"a\", sha256 = \"hunter2\" }}]\nnmae = 1\n", AGENT.replace("embedded", "redis://:hunter2@a:1"));
    let mistakes = parse(text.as_bytes()).and_then(|document| AgentConfig::from_node(&document)).expect_err("it is bad");
    let shown = shown("agent.toml", text.as_bytes(), &mistakes);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.ends_with("agent.toml:7:1: /nmae: unknown key `nmae`; did you mean `name`?\n    nmae = 1\n    ^\n"), "{shown}");
}

#[test]
fn hostile_files_are_refused() {
    let told = |text: &[u8]| parse(text).expect_err("it is hostile").iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told(b"node = 1 # \xff"), ["1:12: this is not UTF-8"]);
    assert_eq!(told(&vec![b'#'; super::MAX_BYTES + 1]), ["the file has 1048577 bytes; at most 1048576"]);
    assert_eq!(
        told(format!("a = {}", "[".repeat(100_000)).as_bytes()),
        ["1:85: cannot be read as TOML: cannot recurse further; max recursion depth met"]
    );
    assert_eq!(told(format!("a{} = 1", ".a".repeat(100_000)).as_bytes()).len(), 1);
}
