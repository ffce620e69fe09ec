"""A public detector of COCO under shifts of the window, with the truth and without, as in sections 3.1 and 3.4 of the NERO paper."""

from __future__ import annotations

from pathlib import Path

from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import CropOrbit
from veracity.orbits.tasks import Detection
from veracity.recipe import Scale, recipe
from veracity_papers.data import coco
from veracity_papers.data.imagenet import imagenet
from veracity_papers.recipes.orbits_detection import PAPER
from veracity_papers.zoo.ssd import SSDMobileNet

NAME = "SSD-MobileNetV2"
TOP = 20
"""How many detections of a window are kept, so that an object that is not the surest one is among them."""
OBJECTS = {Scale.SMOKE: (2, 32), Scale.SMALL: (None, 8), Scale.PAPER: (None, 2)}
UNLABELLED = {Scale.SMOKE: (2, 24), Scale.SMALL: (100, 12), Scale.PAPER: (500, 8)}
"""How many key objects or photographs (None: all), and how many pixels lie between two shifts."""
PHOTO_WINDOW, PHOTO_REACH = 176, 24
"""A window moves over a photograph of 224 pixels."""


@recipe("orbits-coco", reference=f"{PAPER}, sections 3.1 and 3.4, Figures 7, 8 and 12")
def orbits_coco(folder: Path, scale: Scale) -> OrbitEvaluation:
    """SSD-MobileNetV2 on annotated photographs of COCO, as a window shifts by up to an eighth of its side: truth against consensus.

    Ten key objects of six photographs; the agreement says how alike the plots against the consensus and against the truth are. Needs the
    extra "coco". Small: 8x8 shifts. Paper: 32x32. Smoke: two objects, 2x2 shifts.
    """
    count, step = OBJECTS[scale]
    data, model = coco.key_objects(count), SSDMobileNet()
    precisions = {} if scale is Scale.SMOKE else precision_by_class(model)
    facts = {"average_precision": {name: round(value, 4) for name, value in precisions.items()}} if precisions else {}
    return OrbitEvaluation(
        title="How steady is a public detector of COCO as its window shifts?",
        models={NAME: model},
        inputs=data.images,
        targets=data.boxes,
        labels=[coco.CLASSES[number] for number in data.labels.tolist()],
        orbit=CropOrbit(window=coco.WINDOW, reach=coco.REACH, step=step),
        task=Detection(classes=coco.CLASSES, window=coco.WINDOW, top=TOP),
        notes=[
            "Windows of 128 to 384 pixels of a photograph are scaled to 256. The key object is near the window's centre and stays whole at "
            "nearly every shift. Several objects are of one photograph but count as independent, so that intervals are too narrow. The "
            "network may have learnt from these photographs.",
            *([precision_note(precisions)] if precisions else []),
        ],
        about={"recipe": "orbits-coco", "scale": scale.value, **facts},
    )


@recipe("orbits-coco-unlabelled", reference=f"{PAPER}, section 3.4")
def orbits_coco_unlabelled(folder: Path, scale: Scale) -> OrbitEvaluation:
    """SSD-MobileNetV2 on photographs of ImageNet, which have no boxes: consensus alone, as a window of 176 pixels shifts by up to 24.

    The consensus is about the class with the largest sum of scores along the orbit. Many photographs show nothing of COCO's 80
    classes; detections there have low scores. Needs the extra "coco". Small: 100 photographs, 4x4 shifts. Paper: 500, 6x6. Smoke:
    two, 2x2.
    """
    count, step = UNLABELLED[scale]
    images, _ = imagenet(count)
    return OrbitEvaluation(
        title="How steady is a public detector on photographs without labels?",
        models={NAME: SSDMobileNet()},
        inputs=images,
        orbit=CropOrbit(window=PHOTO_WINDOW, reach=PHOTO_REACH, step=step),
        task=Detection(classes=coco.CLASSES, window=PHOTO_WINDOW, top=TOP),
        notes=[
            "Many of ImageNet's classes are none of COCO's: detections on their photographs are unsure or wrong, and so is the consensus."
        ],
        about={"recipe": "orbits-coco-unlabelled", "scale": scale.value},
    )


def precision_by_class(model: SSDMobileNet) -> dict[str, float]:
    """The average precision of each class on the whole photographs, at an IoU of .5."""
    photos = coco.photographs()
    found = [model(photo.image.permute(2, 0, 1)[None].float() / 255.0)[0] for photo in photos]
    return coco.average_precision(found, photos)


def precision_note(precisions: dict[str, float]) -> str:
    """The classes' average precision and its mean in a sentence.

    >>> precision_note({"person": 0.5, "bus": 1.0})
    'On the whole annotated photographs its average precision (at IoU .5) is 0.75: person 0.50, bus 1.00.'
    """
    mean, said = sum(precisions.values()) / len(precisions), ", ".join(f"{name} {value:.2f}" for name, value in precisions.items())
    return f"On the whole annotated photographs its average precision (at IoU .5) is {mean:.2f}: {said}."
