//! Textbook bounds on the write amplification of dictionaries. Constant factors that asymptotic
//! bounds hide are set to 1 (Conway §3.1, Lim §4.1).

use crate::parameter::{BadParameter, at_least, positive};

/// Returns log_r(N/M): the number of levels that N keys need below the M keys in memory if levels
/// grow by the factor r. Returns zero if all keys fit into memory.
///
/// # Errors
/// [`BadParameter`] unless the growth factor is at least 2, and keys and memory are positive.
pub fn levels(keys: f64, in_memory: f64, growth: f64) -> Result<f64, BadParameter> {
    let growth = at_least("the growth factor", growth, 2.0, "at least 2, and finite")?;
    let keys = positive("the number of keys", keys)?;
    let in_memory = positive("the memory", in_memory)?;
    Ok(((keys / in_memory).ln() / growth.ln()).max(0.0))
}

/// Returns the bound on the write amplification of a B-tree with nodes of `node` elements, in which
/// each insert rewrites its leaf.
///
/// # Errors
/// [`BadParameter`] unless a node has at least one element.
pub fn b_tree(node: f64) -> Result<f64, BadParameter> {
    at_least("the node", node, 1.0, "at least 1, and finite")
}

/// Returns the bound on the write amplification of a Bε-tree with fanout F: F log_F(N/M). An item
/// that moves down a level makes F items of that level be rewritten with it.
///
/// # Errors
/// As [`levels`].
pub fn buffered(keys: f64, in_memory: f64, fanout: f64) -> Result<f64, BadParameter> {
    Ok(fanout * levels(keys, in_memory, fanout)?)
}

/// Returns the bound on the write amplification of an LSM-tree with rolling merges: (r + 1)
/// log_r(N/M).
///
/// # Errors
/// As [`levels`].
pub fn lsm(keys: f64, in_memory: f64, growth: f64) -> Result<f64, BadParameter> {
    Ok((growth + 1.0) * levels(keys, in_memory, growth)?)
}

/// Returns the bound on the write amplification of an LSM-tree that merges each full level into the
/// next as a whole: r/2 · log_r(N/M).
///
/// # Errors
/// As [`levels`].
pub fn levelled(keys: f64, in_memory: f64, growth: f64) -> Result<f64, BadParameter> {
    Ok(growth / 2.0 * levels(keys, in_memory, growth)?)
}

/// Returns the bound on the write amplification of a size-tiered LSM-tree and of SAMT: log_r(N/M).
///
/// # Errors
/// As [`levels`].
pub fn tiered(keys: f64, in_memory: f64, growth: f64) -> Result<f64, BadParameter> {
    levels(keys, in_memory, growth)
}

/// Returns the bound on the write amplification of a cache-oblivious lookahead array (COLA): (r −
/// 1) log_r(N/M).
///
/// # Errors
/// As [`levels`].
pub fn cola(keys: f64, in_memory: f64, growth: f64) -> Result<f64, BadParameter> {
    Ok((growth - 1.0) * levels(keys, in_memory, growth)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_textbooks() {
        assert_eq!(b_tree(64.0), Ok(64.0));
        let (keys, memory) = (1e9, 1e3);
        assert!((levels(keys, memory, 10.0).unwrap() - 6.0).abs() < 1e-9);
        assert!((lsm(keys, memory, 10.0).unwrap() - 66.0).abs() < 1e-9);
        assert!((levelled(keys, memory, 10.0).unwrap() - 30.0).abs() < 1e-9);
        assert!((tiered(keys, memory, 10.0).unwrap() - 6.0).abs() < 1e-9);
        assert!((cola(keys, memory, 10.0).unwrap() - 54.0).abs() < 1e-9);
        assert!((buffered(keys, memory, 10.0).unwrap() - 60.0).abs() < 1e-9);
        assert_eq!(lsm(10.0, 20.0, 4.0), Ok(0.0), "all keys are in memory");
    }

    #[test]
    fn what_has_no_bound_is_refused_by_name() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(lsm(1e6, bad, 4.0).unwrap_err().name, "the memory");
            assert_eq!(cola(bad, 1e3, 4.0).unwrap_err().name, "the number of keys");
            assert_eq!(tiered(1e6, 1e3, bad).unwrap_err().name, "the growth factor");
            assert!(b_tree(bad).is_err() && buffered(1e6, 1e3, bad).is_err());
        }
        assert!(levelled(1e6, 1e3, 1.9).is_err());
    }
}
