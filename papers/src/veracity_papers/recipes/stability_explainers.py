"""The eight explainers of the stability paper, with its settings (Fel et al., WACV 2022, appendix B)."""

from __future__ import annotations

from veracity.core.explainers import Explainer
from veracity.explain import GradCam, GradCamPlusPlus, InputXSaliency, IntegratedGradients, RandomUniform, Rise, Saliency, SmoothGrad

MASKS = 1000  # of RISE, for all data sets but ImageNet (4,000 there)


def stability_explainers(*, points: int = 60, masks: int = MASKS, layer: str | None = None) -> dict[str, Explainer]:
    """Saliency, x ⊙ |∇f|, Integrated Gradients, SmoothGrad, Grad-CAM, Grad-CAM++, RISE and random numbers, by readable names.

    `points` is the m of Integrated Gradients (trapezoid, from zero) and of SmoothGrad (σ = 0.2, whatever the input's range).
    `layer` is the layer of both Grad-CAMs, by default the last convolution. The explainers explain the logit, so give them a
    model that ends in logits. Grad-CAM, Grad-CAM++ and RISE give each position one value, repeated over the channels, which
    does not change the rank correlation of two such maps; the others tell channels apart. The random one is the control that
    an audit adds on its own, under the same name.

    >>> list(stability_explainers())[:4]
    ['saliency', 'input_x_saliency', 'integrated_gradients', 'smooth_grad']
    >>> stability_explainers(points=10)["smooth_grad"]
    SmoothGrad(draws=10, noise=0.15, sigma=0.2)
    """
    return {
        "saliency": Saliency(),
        "input_x_saliency": InputXSaliency(),
        "integrated_gradients": IntegratedGradients(steps=points, method="trapezoid", baseline=0.0),
        "smooth_grad": SmoothGrad(draws=points, sigma=0.2),
        "grad_cam": GradCam(layer=layer),
        "grad_cam_plus_plus": GradCamPlusPlus(layer=layer),
        "rise": Rise(masks=masks),
        "random_uniform": RandomUniform(),
    }
