//! The hash function of one bucket: an acyclic hypergraph and the values of its vertices.

use super::shape::{MAX_BUCKET_KEYS, third};
use alluvium_base::checksum::seeded;

/// The value of a vertex that is not assigned to a key.
pub(super) const UNUSED: u8 = 3;

/// The bits of a hash that select a vertex.
const SLICE_BITS: u32 = 21;

/// The most vertices of a bucket.
const MAX_VERTICES: usize = 3 * ((41 * MAX_BUCKET_KEYS as usize).div_ceil(100) + 2);

/// The seed of a bucket and the values of its vertices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BucketFunction {
    pub(super) seed: u8,
    pub(super) values: Vec<u8>,
}

/// Returns a key's vertices in a bucket with `third` vertices per third; `third` is at least 1.
#[inline]
pub(super) fn vertices(key: &[u8], seed: u8, third: u32) -> [u32; 3] {
    let hash = seeded(seed.into(), key);
    [0, 1, 2].map(|part| {
        let slice = hash >> (SLICE_BITS * part) & ((1 << SLICE_BITS) - 1);
        part * third + ((slice * u64::from(third)) >> SLICE_BITS) as u32
    })
}

/// Finds a function for the keys of a bucket; `None` if every seed fails.
pub(super) fn find(keys: &[&[u8]]) -> Option<BucketFunction> {
    assert!(keys.len() <= MAX_BUCKET_KEYS as usize, "a bucket is small");
    let third = third(keys.len() as u32);
    (0..=u8::MAX).find_map(|seed| {
        let edges: Vec<[u32; 3]> = keys.iter().map(|key| vertices(key, seed, third)).collect();
        let values = values(&edges, 3 * third as usize)?;
        Some(BucketFunction { seed, values })
    })
}

/// Returns values for the vertices of a graph, or `None` if the graph is cyclic: edges remain all
/// of whose vertices belong to another edge.
fn values(edges: &[[u32; 3]], vertices: usize) -> Option<Vec<u8>> {
    // For each vertex, the number of remaining edges and the exclusive or of their numbers. With
    // one edge left, the exclusive or is its number.
    let (mut degrees, mut ids) = ([0u16; MAX_VERTICES], [0u16; MAX_VERTICES]);
    for (id, edge) in (0..).zip(edges) {
        for &vertex in edge {
            degrees[vertex as usize] += 1;
            ids[vertex as usize] ^= id;
        }
    }
    let mut ready: Vec<u32> = (0..vertices as u32)
        .filter(|&vertex| degrees[vertex as usize] == 1)
        .collect();
    let mut taken = Vec::with_capacity(edges.len());
    while let Some(own) = ready.pop() {
        if degrees[own as usize] != 1 {
            continue;
        }
        let id = ids[own as usize];
        taken.push((id, own));
        for &vertex in &edges[usize::from(id)] {
            degrees[vertex as usize] -= 1;
            ids[vertex as usize] ^= id;
            if degrees[vertex as usize] == 1 {
                ready.push(vertex);
            }
        }
    }
    if taken.len() < edges.len() {
        return None;
    }
    let mut values = vec![UNUSED; vertices];
    // An edge's own vertex belongs to no edge that was removed later, so assigning it does not
    // change a sum computed earlier.
    for &(id, own) in taken.iter().rev() {
        let edge = edges[usize::from(id)];
        let part = edge.iter().position(|&vertex| vertex == own).unwrap_or(0);
        let others: usize = edge
            .iter()
            .filter(|&&vertex| vertex != own)
            .map(|&vertex| usize::from(values[vertex as usize]))
            .sum();
        values[own as usize] = ((part + 6 - others) % 3) as u8;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_leads_every_key_to_a_vertex_of_its_own() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in (0..60).chain([100, 176, 255, 256]) {
            let keys: Vec<[u8; 12]> = (0..count).map(|_| [0; 12].map(|_: u8| random.u8(..))).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let function = find(&keys).unwrap();
            let third = third(count);
            assert_eq!(function.values.len(), 3 * third as usize);
            let mut used = vec![false; function.values.len()];
            for key in keys {
                let edge = vertices(key, function.seed, third);
                let sum: u8 = edge.iter().map(|&vertex| function.values[vertex as usize]).sum();
                let own = edge[usize::from(sum % 3)] as usize;
                assert!(!used[own] && function.values[own] != UNUSED, "P1");
                used[own] = true;
            }
            let valued = function.values.iter().filter(|&&value| value != UNUSED).count();
            assert_eq!(valued, count as usize, "P2");
        }
    }

    #[test]
    fn equal_keys_have_no_function() {
        assert_eq!(find(&[b"12345678", b"12345678"]), None);
    }
}
