//! A Redis Cluster of three shards, one of which serves the region.

use super::values::poll;
use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// Three primaries, and a replica of the one that serves the region.
struct Cluster {
    nodes: Vec<Server>,
    /// The place of the primary of the region's slot among the nodes; the replica is the last.
    owner: usize,
    slot: u64,
}

fn limit() -> Charge {
    charge("a", tokens(1), HOUR, tokens(100))
}

fn command(server: &Server, words: &[&str]) {
    redis::cmd("CLUSTER").arg(words).exec(&mut server.connect()).expect("done");
}

fn asked(server: &Server, words: &[&str]) -> String {
    redis::cmd("CLUSTER").arg(words).query(&mut server.connect()).expect("it answers")
}

impl Cluster {
    async fn start() -> Self {
        let ports: Vec<(u16, String)> = (0..4).map(|_| (server::free_port(), server::free_port().to_string())).collect();
        let node = |(port, bus): &(u16, String)| {
            let more =
                ["--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"];
            Server::on_port(*port, "", &more)
        };
        let nodes: Vec<Server> = ports.iter().map(node).collect();
        for (place, (node, slots)) in nodes.iter().zip([["0", "5461"], ["5462", "10922"], ["10923", "16383"]]).enumerate() {
            command(node, &["SET-CONFIG-EPOCH", &(place + 1).to_string()]);
            command(node, &["ADDSLOTSRANGE", slots[0], slots[1]]);
        }
        for (port, bus) in &ports[1..] {
            command(&nodes[0], &["MEET", "127.0.0.1", &port.to_string(), bus]);
        }
        let known = |node: &Server| asked(node, &["INFO"]).contains("cluster_known_nodes:4");
        poll(|| nodes.iter().all(known)).await;
        let slot: u64 = redis::cmd("CLUSTER").arg("KEYSLOT").arg("{eu}").query(&mut nodes[0].connect()).expect("it answers");
        let owner = usize::try_from(slot / 5_462).expect("small");
        let id = asked(&nodes[owner], &["MYID"]);
        command(&nodes[3], &["REPLICATE", &id]);
        poll(|| nodes[3].info("replication").contains("master_link_status:up")).await;
        let ready = |node: &Server| asked(node, &["INFO"]).contains("cluster_state:ok") && asked(node, &["NODES"]).contains("slave ");
        poll(|| nodes.iter().all(ready)).await;
        Self { nodes, owner, slot }
    }

    /// A node that does not serve the region.
    fn other(&self) -> &Server {
        &self.nodes[(self.owner + 1) % 3]
    }

    fn replica(&self) -> &Server {
        &self.nodes[3]
    }
}

async fn says(store: &RedisStore, expected: &Reply) {
    values::poll_async(async || store.decide(&question(&[limit()])).await.as_ref() == Ok(expected)).await;
}

#[tokio::test]
async fn a_region_is_served_whichever_node_is_named_and_follows_its_slot() {
    let cluster = Cluster::start().await;
    for node in &cluster.nodes {
        let store = store(node);
        says(&store, &Reply::NoRecord).await;
    }
    let store = store(cluster.other());
    begin(&store).await.expect("begun");
    assert!(decide(&store, &[limit(), charge("{b}", tokens(1), HOUR, tokens(2)), charge("}c{", tokens(1), HOUR, tokens(2))]).await.allowed);

    // by hand and without a loss, but nobody can know that: the replica might have lagged
    command(cluster.replica(), &["FAILOVER"]);
    poll(|| cluster.replica().info("replication").contains("role:master")).await;
    let mut refused = Vec::new();
    values::poll_async(async || match store.decide(&question(&[limit()])).await {
        Ok(reply) => reply == Reply::NoRecord,
        Err(error) => {
            refused.push(error.kind());
            false
        }
    })
    .await;
    assert!(refused.iter().all(|kind| matches!(*kind, "moved" | "unreachable" | "suspended" | "cluster_down" | "timeout")), "{refused:?}");
    assert!(store.load().await.expect("it answers").lost());
    begin_again(&store, 2).await;
    assert!(!decide(&store, &[limit()]).await.allowed);
}

#[tokio::test]
async fn a_shard_that_dies_is_replaced_and_a_node_that_was_never_named_is_found() {
    let mut cluster = Cluster::start().await;
    let owner = cluster.owner;
    let store = store(&cluster.nodes[owner]);
    begin(&store).await.expect("begun");
    assert!(decide(&store, &[limit()]).await.allowed);
    cluster.nodes[owner].kill();
    poll(|| cluster.replica().info("replication").contains("role:master")).await;
    says(&store, &Reply::NoRecord).await;
    begin_again(&store, 2).await;
    assert!(!decide(&store, &[limit()]).await.allowed);
}

#[tokio::test]
async fn a_slot_on_its_way_is_named_and_followed_once_it_has_arrived() {
    let cluster = Cluster::start().await;
    let (from, to, slot) = (&cluster.nodes[cluster.owner], cluster.other(), cluster.slot.to_string());
    let store = store(from);
    begin(&store).await.expect("begun");
    assert!(decide(&store, &[limit()]).await.allowed);
    let (from_id, to_id) = (asked(from, &["MYID"]), asked(to, &["MYID"]));
    command(to, &["SETSLOT", &slot, "IMPORTING", &from_id]);
    command(from, &["SETSLOT", &slot, "MIGRATING", &to_id]);
    // what is still there is decided; a new subject would begin over there
    assert!(decide(&store, &[limit()]).await.allowed);
    let new = store.decide(&question(&[charge("new", tokens(1), HOUR, tokens(1))])).await;
    assert!(matches!(new, Err(StoreError::Unusable { why: Unusable::Migrating, .. })), "{new:?}");
    let keys: Vec<String> = redis::cmd("CLUSTER").arg("GETKEYSINSLOT").arg(&slot).arg(100).query(&mut from.connect()).expect("it answers");
    let moved = redis::cmd("MIGRATE").arg(&["127.0.0.1", to.port(), "", "0", "5000", "KEYS"]).arg(&keys).exec(&mut from.connect());
    moved.expect("moved");
    let gone = store.decide(&question(&[limit()])).await;
    assert!(matches!(gone, Err(StoreError::Unusable { why: Unusable::Migrating, .. })), "{gone:?}");
    for node in &cluster.nodes[..3] {
        command(node, &["SETSLOT", &slot, "NODE", &to_id]);
    }
    says(&store, &Reply::NoRecord).await;
    assert!(store.load().await.expect("it answers").lost());
}
