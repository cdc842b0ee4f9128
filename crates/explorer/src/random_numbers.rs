//! Random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). A seed yields the same numbers on
//! every machine. Sampling strategies and makers of random programs draw from it.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Returns the stream of a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns whether an event of this chance happens.
    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// Returns one of the items; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        match items.len() {
            0 => None,
            count => items.get(self.below(count as u64) as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn a_seed_yields_the_numbers_of_the_published_algorithm() {
        let mut numbers = Numbers::new(1_234_567);
        let drawn = [(); 3].map(|()| numbers.draw());
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, published);
    }
}
