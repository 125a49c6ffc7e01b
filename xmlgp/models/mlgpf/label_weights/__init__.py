"""The posterior of the label weights: sparse weights W of each label on features, in the utilities f = Φ h + b + W x.

In this package are the pattern of W, q(W), its prior, the pairs and the updates that move it, and the moments of f that
it is part of. Training of h, Φ and b is not, nor are the stages that call the updates (`xmlgp.models.mlgpf.sweep`).

Φ h has rank P, and rare labels have little influence on it. W lets each label depend on single features, those that its
training points have. The posterior is fully factorised, q(w_kd) = N(m_kd, v_kd). The prior is N(0, ρ_k τ_d) with a
given ρ_k; the bound is maximised over τ_d of each feature, which shrinks the weights of uninformative features.
"""
