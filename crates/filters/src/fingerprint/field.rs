//! Arithmetic in the field of integers modulo the Mersenne prime 2^127 − 1, over which the
//! polynomials that compute fingerprints are defined.

pub(super) const MODULUS: u128 = (1 << 127) - 1;

const LOW: u128 = (1 << 64) - 1;

/// Returns the remainder of `value` modulo the prime.
pub(super) fn reduce(value: u128) -> u128 {
    let folded = (value & MODULUS) + (value >> 127);
    if folded >= MODULUS {
        folded - MODULUS
    } else {
        folded
    }
}

/// Returns the sum of two field elements.
pub(super) fn add(a: u128, b: u128) -> u128 {
    reduce(a + b)
}

/// Returns the product of two field elements.
pub(super) fn mul(a: u128, b: u128) -> u128 {
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let (low, left, right, high) = (a0 * b0, a1 * b0, a0 * b1, a1 * b1);
    let middle = (low >> 64) + (left & LOW) + (right & LOW);
    let bottom = (middle << 64) | (low & LOW);
    let top = high + (left >> 64) + (right >> 64) + (middle >> 64);
    // 2^128 is congruent to 2, so add the bits above bit 127 to the low bits.
    reduce(((top << 1) | (bottom >> 127)) + (bottom & MODULUS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the product by doubling and adding, for comparison.
    fn slow(a: u128, b: u128) -> u128 {
        let mut sum = 0;
        for bit in (0..127).rev() {
            sum = add(sum, sum);
            if b >> bit & 1 == 1 {
                sum = add(sum, a);
            }
        }
        sum
    }

    #[test]
    fn products_are_those_of_doubling_and_adding() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut values = vec![0, 1, 2, MODULUS - 1, MODULUS - 2, 1 << 64, LOW, 1 << 126];
        values.extend((0..40).map(|_| reduce(random.u128(..))));
        for &a in &values {
            for &b in &values {
                assert_eq!(mul(a, b), slow(a, b), "{a:x} × {b:x}");
            }
        }
        assert_eq!((reduce(MODULUS), reduce(u128::MAX)), (0, 1));
    }

    #[test]
    fn every_element_but_zero_has_its_inverse() {
        // By Fermat's little theorem, the inverse of a is a^(p−2). All bits of p − 2 are ones
        // except bit 1.
        for a in [2u128, 3, 12345, 1 << 100, MODULUS - 1] {
            let mut power = 1;
            for bit in (0..127).rev() {
                power = mul(power, power);
                if (MODULUS - 2) >> bit & 1 == 1 {
                    power = mul(power, a);
                }
            }
            assert_eq!(mul(a, power), 1);
        }
    }
}
