"""The comparison of counterfactual systems in the paper's appendix, beside CARLA's own answers and the proven optimum.

CARLA (Pawelczyk, Bielawski, van den Heuvel, Richter, Kasneci: "CARLA: A Python Library to Benchmark Algorithmic
Recourse and Counterfactual Explanation Algorithms", NeurIPS 2021) runs on Python 3.7 only. Its data, the weights of its
models and its answers row by row are in the folder ``carla`` of the data, so its systems and ours explain the same rows
of the same models and are judged by the same functions.
"""
