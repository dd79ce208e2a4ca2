//! The network's inputs and parameters, their initial values, and the evaluation on the test images.

use anyhow::Result;
use arrayjit::{Backend, Context, HostArray, TensorNode, TensorNodeError};

use crate::{data::Digits, network::declarations};

/// Counts the test images whose label has the greatest score. Keeps the count and the scores `ty`.
pub const EVALUATE: &str = "
th[n,j]  :+= tx[n,i] * w1[i,j]
ta[n,j]   := relu(th[n,j] + b1[j])
tz[n,k]  :+= ta[n,j] * w2[j,k]
ty[n,k]   := tz[n,k] + b2[k]
ttop[n]  :max= ty[n,k]
correct  :+= (ty[n,k] == ttop[n]) * (k == tlabel[n])
keep correct, ty
";

/// The inputs and parameters of [`TRAIN`](crate::network::TRAIN) and [`EVALUATE`], found by name.
pub struct Network {
    nodes: Vec<TensorNode>,
}

impl Network {
    /// Makes the nodes for `train` training images and `test` test images.
    ///
    /// # Errors
    ///
    /// An error of the node builder. None occurs with the dimensions of this network.
    pub fn new(train: usize, test: usize) -> Result<Network, TensorNodeError> {
        let build = |(name, dims, dtype): (&str, Vec<usize>, _)| {
            TensorNode::builder(name).dims(dims).dtype(dtype).build()
        };
        Ok(Network { nodes: declarations(train, test).into_iter().map(build).collect::<Result<_, _>>()? })
    }

    /// All declared nodes, for the compiler to choose from by name.
    pub fn nodes(&self) -> Vec<&TensorNode> {
        self.nodes.iter().collect()
    }

    /// The declared node with this name.
    pub fn node(&self, name: &str) -> &TensorNode {
        self.nodes.iter().find(|n| n.name() == name).expect("the list of declarations has the name")
    }

    /// The initial contents of the context: uniform weights scaled for rectified linear units, zeros for all
    /// other nodes.
    ///
    /// # Errors
    ///
    /// An error of a node or array. None occurs with the dimensions of this network.
    pub fn initial_state(
        &self,
        rng: &mut fastrand::Rng,
    ) -> Result<Vec<(TensorNode, HostArray)>, TensorNodeError> {
        ["w1", "b1", "w2", "b2", "v1", "u1", "v2", "u2", "loss"]
            .into_iter()
            .map(|name| {
                let node = self.node(name);
                let dims = node.dims()?;
                let scale = if name.starts_with('w') { (6.0 / dims[0] as f32).sqrt() } else { 0.0 };
                let values: Vec<f32> =
                    (0..node.num_elems()?).map(|_| scale * (2.0 * rng.f32() - 1.0)).collect();
                Ok((node.clone(), HostArray::from_slice(&values, dims)?))
            })
            .collect()
    }

    /// A context with the images and the initial state.
    ///
    /// # Errors
    ///
    /// A failed allocation.
    pub fn upload(
        &self,
        backend: &Backend,
        train: &Digits,
        test: &Digits,
        rng: &mut fastrand::Rng,
    ) -> Result<Context> {
        let mut context = backend.context()?;
        for (node, values) in self.initial_state(rng)? {
            context = context.init_from_host(&node, &values)?;
        }
        for (images, labels, digits) in [("x", "label", train), ("tx", "tlabel", test)] {
            let pixels = HostArray::from_slice(&digits.images, self.node(images).dims()?)?;
            context = context.init_from_host(self.node(images), &pixels)?;
            let digits = HostArray::from_slice(&digits.labels, [digits.count()])?;
            context = context.init_from_host(self.node(labels), &digits)?;
        }
        Ok(context)
    }
}
