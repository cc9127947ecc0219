//! Who reaches whom: regions and the three coordinators.

use super::Micros;

/// So many coordinators.
pub const NODES: usize = 3;

/// The ways from regions to coordinators.
#[derive(Debug)]
pub struct Network {
    /// By region and coordinator: cut until then.
    cut: Vec<[Micros; NODES]>,
    /// By region: it hears nothing until then.
    deaf: Vec<Micros>,
    /// By region: the coordinator that answered last.
    preferred: Vec<usize>,
}

impl Network {
    /// A network in which all is well.
    pub fn new(regions: usize) -> Self {
        Self { cut: vec![[0; NODES]; regions], deaf: vec![0; regions], preferred: (0..regions).map(|r| r % NODES).collect() }
    }

    /// Cuts the region off from the coordinators for which `from` is true.
    pub fn cut(&mut self, region: usize, until: Micros, from: impl Fn(usize) -> bool) {
        for (node, cut) in self.cut[region].iter_mut().enumerate() {
            if from(node) {
                *cut = until.max(*cut);
            }
        }
    }

    /// All is well again.
    pub fn heal(&mut self) {
        self.cut.iter_mut().for_each(|cut| *cut = [0; NODES]);
        self.deaf.fill(0);
    }

    /// Until then the region is heard, and hears nothing.
    pub fn deafen(&mut self, region: usize, until: Micros) {
        self.deaf[region] = until.max(self.deaf[region]);
    }

    /// True if an answer of the coordinator gets back to the region.
    pub fn answers(&self, region: usize, node: usize, now: Micros) -> bool {
        self.reaches(region, node, now) && now >= self.deaf[region]
    }

    /// True if messages pass between the two.
    pub fn reaches(&self, region: usize, node: usize, now: Micros) -> bool {
        now >= self.cut[region][node]
    }

    /// The coordinator that the region asks now. One that cannot be reached is not asked next time.
    pub fn ask(&mut self, region: usize, now: Micros) -> Option<usize> {
        let node = self.preferred[region];
        if self.reaches(region, node, now) {
            return Some(node);
        }
        self.ask_another(region);
        None
    }

    /// The next heartbeat goes to another coordinator: this one did not answer.
    pub fn ask_another(&mut self, region: usize) {
        self.preferred[region] = (self.preferred[region] + 1) % NODES;
    }
}
